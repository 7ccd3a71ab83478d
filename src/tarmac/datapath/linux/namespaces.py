"""Network namespaces by path, and work done inside them.

A namespace lives as long as its file is mounted. Entering one changes only the calling thread, so everything here must
run in a thread of the datapath, never in the event loop's.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_MS_BIND: Final = 0x1000
_MNT_DETACH: Final = 2
_OWN: Final = "/proc/thread-self/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(path: str | Path) -> Generator[None]:
    """Move this thread into another network namespace for the duration of the block."""
    home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(path)
        try:
            yield
        finally:
            # Also after an exception: the thread serves other networks next, and would change the wrong one.
            _call("setns", home, _CLONE_NEWNET)
    finally:
        os.close(home)


def enter(path: str | Path) -> None:
    """Move this thread into a network namespace."""
    there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", there, _CLONE_NEWNET)
    finally:
        os.close(there)


def create(path: Path) -> bool:
    """Create a namespace that the file at `path` keeps alive; False if it exists already.

    A crash between the two steps leaves a file without a namespace, which is reused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if exists(path):
        return False
    path.touch()
    # `unshare` moves the thread into the new namespace; leaving the block brings it back.
    with inside(_OWN):
        _call("unshare", _CLONE_NEWNET)
        _call("mount", _OWN.encode(), os.fsencode(path), None, _MS_BIND, None)
    return True


def exists(path: Path) -> bool:
    """Return True if the file is a namespace: then its inode belongs to a different file system than its directory."""
    try:
        return path.stat().st_dev != path.parent.stat().st_dev
    except FileNotFoundError:
        return False


def remove(path: Path) -> None:
    """Unmount a namespace; it ends with its last user."""
    with suppress(OSError):
        while True:  # a crash may have left several mounts on top of each other
            _call("umount2", os.fsencode(path), _MNT_DETACH)
    path.unlink(missing_ok=True)


def set_controls(values: Mapping[str, str]) -> None:
    """Write sysctls of this thread's namespace, by their path under /proc/sys/net."""
    for name, value in values.items():
        with suppress(FileNotFoundError):  # a kernel without IPv6 has none of its sysctls
            control = os.open(f"/proc/sys/net/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(control, value.encode())
            finally:
                os.close(control)


def control(name: str) -> str:
    """Return a sysctl of this thread's namespace; empty if it does not exist."""
    try:
        return Path(f"/proc/sys/net/{name}").read_text().strip()
    except FileNotFoundError:
        return ""


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {errno.errorcode.get(code, code)}")
