"""Files of a data directory, and its creation: private to its owner."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The files of one server."""

    data_dir: Path
    pki: Path
    encryption_key: Path
    store_url: str

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.data_dir / "kubeconfig"

    @property
    def controllers_kubeconfig(self) -> Path:
        """The kubeconfig of `tarmac controllers`."""
        return self.data_dir / "controllers.kubeconfig"

    @property
    def merged_kubeconfig(self) -> Path:
        """Names the user's kubeconfig that has the context of this server."""
        return self.data_dir / "merged-kubeconfig"

    @property
    def log(self) -> Path:
        """Log lines of `tarmac up`."""
        return self.data_dir / "tarmac.log"

    @property
    def lock(self) -> Path:
        """Held by `tarmac up`."""
        return self.data_dir / "up.lock"

    @property
    def removing(self) -> Path:
        """Left by `tarmac down` for the `tarmac up` that it stops, whose data it then deletes."""
        return self.data_dir / "removing"

    @property
    def audit_log(self) -> Path:
        """The audit log."""
        return self.data_dir / "audit.log"

    def audit_log_of(self, worker: int) -> Path:
        """Return the audit log of one of several processes: each rotates its own."""
        return self.data_dir / f"audit-{worker}.log"


def make_layout(options: argparse.Namespace) -> Layout:
    """Return the layout of the flags after creating its directory. Raises OSError."""
    layout = layout_of(options)
    layout.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return layout


def layout_of(options: argparse.Namespace) -> Layout:
    """Return the layout of the flags; it need not exist."""
    data_dir: Path = options.data_dir.expanduser().absolute()
    pki: Path | None = getattr(options, "pki_dir", None)
    key: Path | None = getattr(options, "encryption_key_file", None)
    return Layout(
        data_dir,
        (pki or data_dir / "pki").absolute(),
        (key or data_dir / "secrets.key").absolute(),
        getattr(options, "store", "") or f"sqlite://{data_dir / 'store.db'}",
    )
