"""Certificates with their keys on disk, in kubelet's layout: dated files and a link to the current one.

A file is complete and private (0600) before the link names it, and the link is replaced atomically, so a reader finds a
matching pair even after a crash in between.
"""

from __future__ import annotations

import os
from pathlib import Path

from tarmac.base.clock import Clock, rfc3339

_KEPT = 2  # the current pair, and the one before it


class PairFile:
    """`<directory>/<name>-current.pem`: a certificate chain followed by its key."""

    def __init__(self, directory: Path, name: str, clock: Clock) -> None:
        self.path = directory / f"{name}-current.pem"
        self._directory = directory
        self._name = name
        self._clock = clock

    def read(self) -> str:
        """Return the current pair; empty if there is none."""
        try:
            return self.path.read_text()
        except OSError:
            return ""

    def write(self, certificate: str, key: str) -> None:
        """Make this the current pair."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = rfc3339(self._clock.now()).replace(":", "-")
        file = self._directory / f"{self._name}-{stamp}.pem"
        write_private(file, f"{certificate.strip()}\n{key.strip()}\n")
        link = self._directory / f".{self._name}-link"
        # Left by an agent that was killed before the rename.
        link.unlink(missing_ok=True)
        link.symlink_to(file.name)
        link.rename(self.path)
        # Last: until the link points to the new pair, the old one is in use.
        self._forget(file)

    def _forget(self, current: Path) -> None:
        dated = sorted(self._directory.glob(f"{self._name}-2*.pem"))
        # The previous pair stays: the link's rename is not synced, and may be undone by a power loss.
        for file in dated[:-_KEPT]:
            if file != current:
                file.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    # Left by an agent that was killed before the rename; O_EXCL would refuse it.
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        # Before the rename: after a power loss the name must not refer to an empty file.
        os.fsync(file.fileno())
    partial.rename(path)


def split_pair(pem: str) -> tuple[str, str]:
    """Split a text into certificates and key."""
    at = pem.find("-----BEGIN PRIVATE KEY-----")
    return (pem, "") if at < 0 else (pem[:at], pem[at:])
