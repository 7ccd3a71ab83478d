"""Lease checkpoint: epochs, so that none goes back after a restart of the agent, and the owners of addresses.

An agent that restarts while the API server is unreachable routes packets to the same owners as before.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tarmac.base.log import log

_log = log("external")


class Owner(msgspec.Struct, frozen=True):
    """Owner of an address: the epoch that it won, its node name, and the end of its tunnels."""

    epoch: int
    name: str
    node_address: str


class LeaseState(msgspec.Struct, frozen=True):
    """Epochs and owners by address."""

    epochs: dict[str, int] = {}
    owners: dict[str, Owner] = {}

    def plausible(self, highest: int) -> LeaseState:
        """Drop epochs above the highest possible one: lies of a hostile node, written down before the bound."""
        epochs = {address: epoch for address, epoch in self.epochs.items() if epoch <= highest}
        return LeaseState(epochs, {address: owner for address, owner in self.owners.items() if owner.epoch <= highest})


_decode = msgspec.json.Decoder(LeaseState).decode


class LeaseCheckpoint:
    """The checkpoint file. Only the lease thread uses it; written mainly when an address changes its owner."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.saved = self._read()

    def save(self, state: LeaseState) -> None:
        """Write the checkpoint. Raises OSError."""
        if state != self.saved:
            replace_file(self._path, msgspec.json.encode(state))
            # Only after the write: the thread sends promises by what is saved.
            self.saved = state

    def remove(self) -> None:
        """Delete the checkpoint."""
        self._path.unlink(missing_ok=True)
        self.saved = LeaseState()

    def _read(self) -> LeaseState:
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return LeaseState()
        except (OSError, UnicodeError, msgspec.DecodeError) as error:
            # Epochs are also in Gateways, and voters state them in rejections: only the first request is lost.
            _log.warning("lease checkpoint cannot be read", why=str(error))
            return LeaseState()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by this user only: a crash leaves either the old or the new content."""
    draft = path.with_name(f".{path.name}.new")
    # Left by a process that was killed before the rename; O_EXCL would refuse it.
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
    # Not synced: a host that lost its power is away for longer than a lease, and the promises have expired.
    os.replace(draft, path)
