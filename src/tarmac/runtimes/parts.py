"""Finds the programs and images that a node consists of.

Programs on the host's PATH take precedence; the rest comes from the directory that `make setup` fills,
`$TARMAC_NODE_PARTS` or `$XDG_CACHE_HOME/tarmac/node`. Programs that belong together come from the same place: a
containerd and its shim, gVisor and its shim.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_CONTAINERD = ("containerd", "ctr", "containerd-shim-runc-v2")
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")  # of Debian, and of other distributions
_GVISOR = ("runsc", "containerd-shim-runsc-v1")
_QEMU = ("qemu-system-x86_64", "qemu-img")
_INSTALL_MACHINES = "run `apt install tarmac-machines`, or in a clone, as root, `make setup` and `make node-parts`"
FIRST_LINE = "tarmac-guest: the kernel runs"
"""The line that our guests' initial filesystem prints on the serial port: the kernel has started its first process."""


class PartMissing(Exception):
    """A required program is missing; the message tells how to get it."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Paths of the parts. Without gVisor, `no_gvisor` has the reason."""

    containerd: Path
    ctr: Path
    containerd_shim: Path
    runc: Path
    runsc: Path | None
    runsc_shim: Path | None
    no_gvisor: str
    cni: Path  # a directory with CNI plugins, `loopback` among them
    images: tuple[Path, ...]

    @property
    def path(self) -> str:
        """The PATH with which containerd finds its shims and all other programs."""
        own = [self.containerd_shim, self.runc, *([self.runsc_shim] if self.runsc_shim else [])]
        folders = [*(str(program.parent) for program in own), os.environ.get("PATH") or os.defpath]
        return os.pathsep.join(dict.fromkeys(folders))


@dataclass(frozen=True, slots=True)
class MachineParts:
    """Parts of virtual machines. Kernel and initial filesystem boot without a disk until they print `FIRST_LINE`."""

    qemu: Path
    qemu_img: Path
    kernel: Path
    initrd: Path
    images: Path  # a directory with operating system images


def parts_folder() -> Path:
    """Return the directory that `make setup` fills with parts that the host lacks."""
    named = os.environ.get("TARMAC_NODE_PARTS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "tarmac" / "node"


def find_parts(*, path: str | None = None) -> NodeParts:
    """Find all parts. `path` replaces the PATH; empty: only parts from `make setup`. Raises PartMissing."""
    folder = parts_folder()
    containerd, ctr, shim = _needed(_CONTAINERD, folder, path)
    [runc] = _needed(("runc",), folder, path)
    gvisor = _group(_GVISOR, folder, path)
    return NodeParts(
        containerd=containerd,
        ctr=ctr,
        containerd_shim=shim,
        runc=runc,
        runsc=gvisor[0] if gvisor else None,
        runsc_shim=gvisor[1] if gvisor else None,
        no_gvisor="" if gvisor else _why_no_gvisor(folder),
        cni=_cni(folder, path),
        images=tuple(sorted(folder.glob("images/*.tar"))),
    )


def find_machine_parts(*, path: str | None = None) -> MachineParts:
    """Find the parts of virtual machines. Raises PartMissing."""
    folder = parts_folder() / "machine-images"
    if not (programs := _group(_QEMU, parts_folder(), path)):
        raise PartMissing(f"no {' and '.join(_QEMU)} on the PATH: {_INSTALL_MACHINES}")
    kernel, initrd = folder / "vmlinuz", folder / "initrd"
    if missing := next((each for each in (kernel, initrd) if not os.access(each, os.R_OK)), None):
        raise PartMissing(f"no {missing.name} for virtual machines in {folder}: {_INSTALL_MACHINES}")
    qemu, qemu_img = programs
    return MachineParts(qemu, qemu_img, kernel, initrd, folder)


def find_program(name: str, *, path: str | None = None) -> Path:
    """Find a single program. Raises PartMissing."""
    return _needed((name,), parts_folder(), path)[0]


def optional_program(name: str) -> Path | None:
    """Find an optional program; None when it is missing."""
    found = _group((name,), parts_folder(), None)
    return found[0] if found else None


def _needed(names: tuple[str, ...], folder: Path, path: str | None) -> list[Path]:
    found = _group(names, folder, path)
    if not found:
        raise PartMissing(f"no {names[0]} on the PATH nor in {folder}: install it, or run `make setup` in a clone")
    return found


def _group(names: tuple[str, ...], folder: Path, path: str | None) -> list[Path]:
    """Return all programs from the first place that has all of them, else an empty list."""
    on_path = [shutil.which(name, path=path) for name in names] if path != "" else []
    if on_path and all(on_path):
        return [Path(place) for place in on_path if place]
    ours = [folder / "bin" / name for name in names]
    return ours if all(os.access(program, os.X_OK) for program in ours) else []


def _cni(folder: Path, path: str | None) -> Path:
    installed = [Path(each) for each in _CNI_FOLDERS] if path != "" else []
    for place in (*installed, folder / "cni"):
        if os.access(place / "loopback", os.X_OK):
            return place
    raise PartMissing(
        f"no CNI plugins in {', '.join(map(str, installed))} nor in {folder}: run `make setup` in a clone"
    )


def _why_no_gvisor(folder: Path) -> str:
    try:
        return (folder / "no-gvisor").read_text().strip()
    except OSError:
        return f"no {' and '.join(_GVISOR)} on the PATH nor in {folder}"
