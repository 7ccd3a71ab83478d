"""Where a machine keeps what `init` and `join` make, who may set it up at one time, and how steps are told."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tarmac.cli.configpath import DEFAULT_FILE
from tarmac.runtimes.containerd import ContainerdSettings
from tarmac.runtimes.parts import NodeParts, find_parts
from tarmac.runtimes.pinnedparts import drop_unused, pinned

DONE, FAILED, USAGE, OBSTACLES = 0, 1, 2, 3
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


class SetupFailed(Exception):
    """A step came to nothing. The text says why; what is there stays, and the command may be repeated."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The folders of one machine."""

    config: Path = DEFAULT_FILE
    data: Path = Path("/var/lib/tarmac")
    run: Path = Path("/run/tarmac")

    @property
    def agent(self) -> Path:
        """The agent's root directory."""
        return self.data / "agent"

    @property
    def kubeconfig(self) -> Path:
        """Who the node is."""
        return self.agent / "kubeconfig"

    @property
    def bootstrap(self) -> Path:
        """The token, until it has been traded for a certificate."""
        return self.agent / "bootstrap.kubeconfig"

    @property
    def lock(self) -> Path:
        """Held by whoever sets the machine up."""
        return self.data / "setup.lock"

    def log(self, part: str) -> Path:
        """What a part says that no service manager listens to."""
        return self.data / f"{part}.log"

    def containerd(self, parts: NodeParts) -> ContainerdSettings:
        """The machine's own containerd."""
        return ContainerdSettings(
            root=self.data / "containerd",
            run=self.run / "containerd",
            cni_bin=self.run / "cni",
            cni_conf=self.run / "cni.d",
            certs=self.data / "certs.d",
            parts=parts,
            nvidia=_NVIDIA_DRIVER.exists(),
        )


def pinned_containerd(machine: Machine) -> ContainerdSettings:
    """The machine's containerd, from programs that no package changes under it. Raises PartMissing, OSError."""
    parts = pinned(find_parts(), machine.data / "parts")
    drop_unused(machine.data / "parts", parts)
    return machine.containerd(parts)


@contextmanager
def setting_up(machine: Machine) -> Generator[None]:
    """Keep others out while the block lasts. The lock goes with the process, however it ends. Raises SetupFailed."""
    machine.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(machine.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
    """Whether another process is about to change what runs here."""
    try:
        lock = os.open(machine.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # For as long as this takes nobody else can have the lock; a command that comes just then says so and changes
        # nothing.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(lock, 32, 0) != str(os.getpid()).encode()
    else:
        return False
    finally:
        os.close(lock)


def tell(text: str) -> None:
    """Say how far it is."""
    print(f"tarmac: {text}", file=sys.stderr, flush=True)
