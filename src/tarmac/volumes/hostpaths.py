"""Host paths: checks their type, and creates them where the pod allows that."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from tarmac.volumes.content.files import ContentMissing, ContentUnsupported

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
_OR_CREATE = "OrCreate"


def check(path: str, type: str) -> None:
    """Check a path. Raises ContentMissing for a different type, ContentUnsupported for an unknown one."""
    if not type:
        return
    kind = type.removesuffix(_OR_CREATE)
    if kind not in _CHECKS or (type != kind and kind not in ("Directory", "File")):
        raise ContentUnsupported(f"{type} is an invalid volume type")
    if type != kind and not os.path.exists(path):
        _create(path, folder=kind == "Directory")
    matches, words = _CHECKS[kind]
    try:
        found = os.stat(path).st_mode
    except OSError:
        found = 0
    if not matches(found):
        raise ContentMissing(f"hostPath type check failed: {path} is not {words}")


def _create(path: str, *, folder: bool) -> None:
    if folder:
        os.makedirs(path, 0o755, exist_ok=True)
    else:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644))
