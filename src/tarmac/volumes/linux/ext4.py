"""ext4 on a file or device: made, checked and grown by e2fsprogs; its state read from the superblock."""

from __future__ import annotations

import os
import struct
import subprocess
from typing import NamedTuple

from tarmac.volumes.medium import MediumFault

_SUPERBLOCK = 1024
_MAGIC = 0xEF53
_VALID, _ERRORS = 1, 2
_NEEDS_RECOVERY = 0x4
_CAP_SYS_RESOURCE = 24
_TIMEOUT = 600
_REPAIRED = (0, 1)
_SBIN = "/usr/sbin:/sbin"


class SuperblockState(NamedTuple):
    """The parsed superblock."""

    size: int
    clean: bool


def state(path: str) -> SuperblockState | None:
    """Return the state of the filesystem on a file or device; None without one."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        block = os.pread(descriptor, 1024, _SUPERBLOCK)
    finally:
        os.close(descriptor)
    if len(block) < 1024 or struct.unpack_from("<H", block, 56)[0] != _MAGIC:
        return None
    (low,), (log_size,) = struct.unpack_from("<I", block, 4), struct.unpack_from("<I", block, 24)
    (flags,), (incompatible,) = struct.unpack_from("<H", block, 58), struct.unpack_from("<I", block, 96)
    (high,) = struct.unpack_from("<I", block, 336)
    clean = bool(flags & _VALID) and not flags & _ERRORS and not incompatible & _NEEDS_RECOVERY
    return SuperblockState((high << 32 | low) * (1024 << log_size), clean)


def make(path: str, label: str = "") -> None:
    """Make a new, empty filesystem. Nothing is reserved for root: a user gets the full requested size."""
    options = ("-m", "0", "-L", label, "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
    _run("mkfs.ext4", "-q", "-F", *options, path)


def repair(path: str) -> None:
    """Repair without loss, before the first mount after a crash."""
    _run("e2fsck", "-p", path, fine=_REPAIRED)


def can_grow_mounted() -> bool:
    """True if the kernel allows it: some hosts withhold the capability."""
    with open("/proc/self/status") as file:
        effective = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)


def grow(device: str, *, mounted: bool) -> None:
    """Grow to the size of the device."""
    if not mounted:
        _run("e2fsck", "-f", "-p", device, fine=_REPAIRED)
    _run("resize2fs", device)


def signature(device: str) -> str:
    """Return the type of filesystem or other content on a device; empty for none."""
    return _run("blkid", "-p", "-o", "value", "-s", "TYPE", device, fine=(0, 2)).strip()


def _run(*command: str, fine: tuple[int, ...] = (0,)) -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{_SBIN}", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
    except FileNotFoundError as error:
        raise MediumFault(f"{command[0]} is not installed on this node (package e2fsprogs)") from error
    except subprocess.TimeoutExpired as error:
        raise MediumFault(f"{command[0]} did not end within {_TIMEOUT} s") from error
    if done.returncode not in fine:
        said = (done.stderr or done.stdout).strip()
        raise MediumFault(f"{command[0]} failed with code {done.returncode}: {said[-500:]}")
    return done.stdout
