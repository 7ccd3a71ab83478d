"""A small real file system: a tmpfs with a size and a number of files that a test chooses."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system at `path`. `fill` uses all space, `free` releases it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave: int = 0) -> None:
        """Use all bytes but so many."""
        found = os.statvfs(self.path)
        size = max(0, found.f_bavail * found.f_frsize - leave)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))

    def fill_inodes(self) -> None:
        """Make files until no more can be made."""
        self._filler.mkdir()
        with pytest.raises(OSError, match="No space left"):  # noqa: PT012 - the one that fails is any of them
            for number in itertools.count():
                (self._filler / str(number)).touch()

    def free(self) -> None:
        """Release the space."""
        if self._filler.is_dir():
            for each in self._filler.iterdir():
                each.unlink()
            self._filler.rmdir()
        else:
            self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size: str = "1m", files: int = 400) -> Generator[SmallDisk]:
    """Mount one while the block lasts."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={files}", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"NOT RUN: cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        with suppress(OSError):
            SmallDisk(path).free()
        if path.is_mount():  # otherwise the program that used it has cleaned up already
            subprocess.run(["umount", "--lazy", str(path)], check=True)
