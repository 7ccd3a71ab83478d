"""Paths of a host for `init` and `join`, the setup lock, and progress output."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.gpudriver import passes_gpus
from tarmac.base.lockfiles import open_lock
from tarmac.cli.configpath import DEFAULT_FILE
from tarmac.runtimes.containerd import ContainerdSettings
from tarmac.runtimes.parts import NodeParts, find_parts
from tarmac.runtimes.pinnedparts import drop_unused, pinned

DONE, FAILED, USAGE, OBSTACLES = 0, 1, 2, 3


class SetupFailed(Exception):
    """A step failed. The message gives the reason; completed steps stay, and the command may be repeated."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The directories of one host."""

    config: Path = DEFAULT_FILE
    data: Path = Path("/var/lib/tarmac")
    run: Path = Path("/run/tarmac")

    @property
    def agent(self) -> Path:
        """The agent's root directory."""
        return self.data / "agent"

    @property
    def kubeconfig(self) -> Path:
        """The node's kubeconfig."""
        return self.agent / "kubeconfig"

    @property
    def bootstrap(self) -> Path:
        """The token, until it has been exchanged for a certificate."""
        return self.agent / "bootstrap.kubeconfig"

    @property
    def etcd(self) -> Path:
        """What this host needs of an etcd: credentials, and the member that it runs."""
        return self.data / "etcd"

    @property
    def etcd_data(self) -> Path:
        """The data of the member that this host runs."""
        return self.etcd / "data"

    @property
    def lock(self) -> Path:
        """Held during setup of the host."""
        return self.data / "setup.lock"

    def log(self, part: str) -> Path:
        """Return the log of a part that runs without a service manager."""
        return self.data / f"{part}.log"

    def containerd(self, parts: NodeParts) -> ContainerdSettings:
        """Return the settings of the host's containerd."""
        return ContainerdSettings(
            root=self.data / "containerd",
            run=self.run / "containerd",
            cni_bin=self.run / "cni",
            cni_conf=self.run / "cni.d",
            certs=self.data / "certs.d",
            parts=parts,
            nvidia=passes_gpus(parts),
        )


def pinned_containerd(machine: Machine) -> ContainerdSettings:
    """Return the host's containerd with copies of its programs that package upgrades leave alone.

    Raises PartMissing, OSError.
    """
    parts = pinned(find_parts(), machine.data / "parts")
    drop_unused(machine.data / "parts", parts)
    return machine.containerd(parts)


@contextmanager
def setting_up(machine: Machine) -> Generator[None]:
    """Hold the setup lock during the block. The kernel releases it with the process. Raises SetupFailed."""
    try:
        machine.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open_lock(machine.lock)
    except PermissionError as error:
        raise SetupFailed(f"{error.filename}: permission denied; run this command as root") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(lock, 32, 0).decode(errors="replace")
            raise SetupFailed(f"another tarmac (process {pid}) sets this machine up") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def another_sets_up(machine: Machine) -> bool:
    """Return True if a different process holds the setup lock."""
    try:
        lock = os.open(machine.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # During this check the lock is unavailable to other processes; a command started just then fails without
        # changes.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(lock, 32, 0) != str(os.getpid()).encode()
    else:
        return False
    finally:
        os.close(lock)


def print_progress(text: str) -> None:
    """Print progress."""
    print(f"tarmac: {text}", file=sys.stderr, flush=True)
