"""Writes a volume's files in one atomic step, in the layout that readers of Kubernetes volumes rely on.

    ..2026_11_15_15_04_05.k3x8a_fw/app.conf     the files, in a folder named after the time
    ..data -> ..2026_11_15_15_04_05.k3x8a_fw    swapped by rename: the atomic step
    app.conf -> ..data/app.conf                 the path that a container opens

A program that watches `..data` sees one event per change, and one that has a file open keeps the old one. Nothing is
written when nothing differs. The next write removes the remnants of an interrupted one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from tarmac.volumes.content.files import Payload, ProjectedFile

_DATA = "..data"
_NEW_DATA = "..data_tmp"
_MAX_NAME, _MAX_PATH = 255, 4096

Publish = Callable[[], None]
"""Called when the new files are complete and before they are visible: sets ownership."""


class BadPath(Exception):
    """A path that is invalid for a volume's file."""


def write(folder: str, payload: Payload, now: float, publish: Publish) -> bool:
    """Make the folder hold exactly these files; True if anything changed."""
    wanted = {_checked(path): file for path, file in payload.items()}
    current = _read_link(f"{folder}/{_DATA}")
    changed = current is None or not _same(f"{folder}/{current}", wanted)
    if changed:
        current = _swap(folder, wanted, now, publish)
    _link_visible(folder, {path.partition("/")[0] for path in wanted})
    _remove_others(folder, keep=current)
    return changed


def _checked(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise BadPath(f"invalid path: must be relative, not empty, and not start with or contain '..': {path}")
    if len(path) > _MAX_PATH or any(len(part) > _MAX_NAME for part in parts):
        raise BadPath(f"invalid path: too long: {path[:_MAX_NAME]}")
    return "/".join(parts)


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None


def _same(folder: str, wanted: Payload) -> bool:
    present = {
        os.path.relpath(os.path.join(base, name), folder) for base, _, names in os.walk(folder) for name in names
    }
    return present == wanted.keys() and all(_content(f"{folder}/{path}") == file.data for path, file in wanted.items())


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _swap(folder: str, wanted: Payload, now: float, publish: Publish) -> str:
    stamp = datetime.fromtimestamp(now, UTC).strftime("..%Y_%m_%d_%H_%M_%S.")
    fresh = tempfile.mkdtemp(prefix=stamp, dir=folder)
    os.chmod(fresh, 0o755)
    for path, file in wanted.items():
        _write_file(f"{fresh}/{path}", file)
    publish()
    with suppress(FileNotFoundError):  # of an interrupted write
        os.unlink(f"{folder}/{_NEW_DATA}")
    os.symlink(os.path.basename(fresh), f"{folder}/{_NEW_DATA}")
    os.rename(f"{folder}/{_NEW_DATA}", f"{folder}/{_DATA}")
    return os.path.basename(fresh)


def _write_file(path: str, file: ProjectedFile) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as opened:
        opened.write(file.data)
        os.fchmod(descriptor, file.mode)
        if file.user is not None:
            os.fchown(descriptor, file.user, -1)


def _link_visible(folder: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileExistsError):
            os.symlink(f"{_DATA}/{name}", f"{folder}/{name}")


def _remove_others(folder: str, keep: str | None) -> None:
    """Remove old versions and dangling links. Folders made for nested mounts stay."""
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.name.startswith("..") and entry.name not in (_DATA, keep):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        elif entry.is_symlink() and not entry.name.startswith("..") and not os.path.exists(entry.path):
            os.unlink(entry.path)
