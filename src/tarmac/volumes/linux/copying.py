"""Copies an image's files onto a new disk.

Symlinks are copied, never followed; names come from reading folders, so none can lead elsewhere. Devices, pipes and
sockets are left out: no image needs them and a tenant's disk must not bring them in.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from tarmac.volumes.linux.syscalls import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_CHUNK_SIZE = 1 << 20
_KEPT_ATTRIBUTES = ("user.", "security.capability")


def copy_tree(source: str, target: str) -> int:
    """Copy a folder's content with owners, modes, times and hard links; returns the number of files left out."""
    origin, destination = os.open(source, _FOLDER), os.open(target, _FOLDER)
    try:
        copier = _Copier(destination)
        copier.folder(origin, destination, "")
        return copier.left_out
    finally:
        os.close(origin)
        os.close(destination)


class _Copier:
    def __init__(self, root: int) -> None:
        self.left_out = 0
        self._root = root
        self._copies: dict[tuple[int, int], str] = {}  # first copy of each file with several names

    def folder(self, source: int, target: int, path: str) -> None:
        for name in os.listdir(source):
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._subfolder(source, target, name, f"{path}{name}/")
            elif stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
                os.chown(name, found.st_uid, found.st_gid, dir_fd=target, follow_symlinks=False)
            elif not stat.S_ISREG(found.st_mode):
                self.left_out += 1
            elif found.st_nlink == 1:
                _copy_file(source, target, name)
            else:
                self._linked_file(source, target, name, found, path + name)

    def _subfolder(self, source: int, target: int, name: str, path: str) -> None:
        with suppress(FileExistsError):  # lost+found
            os.mkdir(name, 0o700, dir_fd=target)
        inner = open_beneath(source, name, _FOLDER, links=False)
        made = open_beneath(target, name, _FOLDER, links=False)
        try:
            self.folder(inner, made, path)
            _copy_attributes(inner, made)
        finally:
            os.close(inner)
            os.close(made)

    def _linked_file(self, source: int, target: int, name: str, found: os.stat_result, path: str) -> None:
        first = self._copies.setdefault((found.st_dev, found.st_ino), path)
        if first == path:
            _copy_file(source, target, name)
        else:
            os.link(first, name, src_dir_fd=self._root, dst_dir_fd=target, follow_symlinks=False)


def _copy_file(source: int, target: int, name: str) -> None:
    origin = open_beneath(source, name, os.O_RDONLY, links=False)
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=target)
    try:
        place = 0
        while sent := os.sendfile(made, origin, place, _CHUNK_SIZE):
            place += sent
        _copy_attributes(origin, made)
    finally:
        os.close(origin)
        os.close(made)


def _copy_attributes(source: int, target: int) -> None:
    found = os.fstat(source)
    os.fchown(target, found.st_uid, found.st_gid)
    for name in os.listxattr(source):
        if name.startswith(_KEPT_ATTRIBUTES):
            os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, stat.S_IMODE(found.st_mode))
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
