"""A file with classes of block I/O, read again only after a change.

The agent's own file is all or nothing: after an error the last good content stays in force. In a file of the runtime,
which accepts every valid class, invalid classes are left out. Disk patterns are evaluated each time, because disks come
and go without a change of the file.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from tarmac.base.log import log
from tarmac.decide.qosclasses.blockio import BlockioEntry, BlockioParameters, Disk, parameters, read_classes

_MAX_BYTES = 1 << 20
_log = log("classes")


def disks(pattern: str) -> Sequence[Disk]:
    """Return the block devices that the paths lead to, symbolic links followed; each once."""
    found: dict[Disk, None] = {}
    for path in sorted(glob.glob(pattern)):
        try:
            status = os.stat(path)
        except OSError:
            continue  # a dangling link
        if stat.S_ISBLK(status.st_mode):
            found[os.major(status.st_rdev), os.minor(status.st_rdev)] = None
    return list(found)


class BadClassFile(Exception):
    """An unreadable or invalid file. The message names it, and the field if there is one."""


class BlockioFile:
    """One file; `lenient`: invalid classes are left out."""

    def __init__(self, path: Path, *, lenient: bool = False, disks: Callable[[str], Sequence[Disk]] = disks) -> None:
        self.path = path
        self._lenient = lenient
        self._disks = disks
        self._seen: tuple[int, ...] = ()
        self._entries: Mapping[str, tuple[BlockioEntry, ...]] = {}
        self._empty: set[str] = set()

    def refresh(self) -> None:
        """Read it if it changed.

        Raises BadClassFile, also while it stays invalid; the last valid content stays in force then.
        """
        try:
            # Before the read: a file that changes in between is read again next time.
            status = os.stat(self.path)
            seen = (status.st_ino, status.st_size, status.st_mtime_ns)
            if seen == self._seen:
                return
            if status.st_size > _MAX_BYTES:
                raise BadClassFile(f"{self.path}: larger than {_MAX_BYTES} bytes")
            document = yaml.safe_load(self.path.read_bytes())
        except OSError as error:
            raise BadClassFile(f"{self.path}: {error.strerror}") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise BadClassFile(f"{self.path}: {' '.join(str(error).split())}") from error
        entries, findings = read_classes(document)
        if findings and not self._lenient:
            raise BadClassFile(f"{self.path}: {'; '.join(findings)}")
        for finding in findings:
            _log.warning("class of the runtime's file is invalid and not offered", file=str(self.path), why=finding)
        self._seen, self._entries = seen, entries

    def classes(self) -> dict[str, BlockioParameters]:
        """Return the current parameters of each class; classes without any are left out and logged."""
        found = {name: parameters(entries, self._disks) for name, entries in self._entries.items()}
        empty = {name for name, each in found.items() if not each}
        for name in sorted(empty - self._empty):
            _log.warning("class limits nothing and is not offered: no disk matches its patterns", name=name)
        self._empty = empty
        return {name: each for name, each in found.items() if each}
