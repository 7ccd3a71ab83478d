"""All recordings of a node: `<folder>/<namespace>/<instance>/<time>-<session>.cast`, limited by age and total size.

Above the size limit, the namespace with the most bytes loses its oldest recording: no tenant can evict recordings of
other namespaces by making large ones. For the same reason one recording may use only a part of the total, and a small
one counts as one disk block.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tarmac.agent.http.machines.casts import MAX_HEADER, SUFFIX, CastFacts, CastHeader, CastWriter, read_header
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log
from tarmac.base.tasks import Tasks

DAY = 24 * 3600.0
MAX_LISTED = 1000
_PART = 4  # one recording may use a quarter of the total
_BLOCK = 4096
_INTERVAL = 3600.0
_CHUNK = 64 * 1024

_log = log("recordings")


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """Retention limits of recordings."""

    days: float = 30.0
    size: int = 256 * 1024 * 1024


class Recording(NamedTuple):
    """An existing recording. `ended` is the time of its last write."""

    path: Path
    header: CastHeader
    ended: float
    size: int


class _Kept(NamedTuple):
    """File attributes, read without opening the file."""

    changed: float
    size: int
    path: Path
    namespace: str


class Recordings:
    """The recordings of one node."""

    def __init__(self, folder: Path, clock: Clock, limits: RecordingLimits | None = None) -> None:
        self._folder = folder
        self._clock = clock
        self._limits = limits or RecordingLimits()
        self._tasks = Tasks()
        self._since = 0  # bytes written since the last clean-up

    def begin(self, namespace: str, instance: str, facts: CastFacts) -> CastWriter:
        """Start a recording. Raises OSError."""
        stamp = rfc3339(self._clock.now()).replace("-", "").replace(":", "")
        path = self._folder / namespace / instance / f"{stamp}-{facts.session}{SUFFIX}"
        largest = self._limits.size // _PART
        return CastWriter(path, f"{namespace}/{instance}", facts, self._clock, largest)

    def ended(self, recording: CastWriter) -> None:
        """Count a finished recording; start a clean-up if much was written since the last one."""
        self._since += recording.written + _BLOCK
        if self._since > self._limits.size // (2 * _PART) and not len(self._tasks):
            self._since = 0
            self._tasks.begin(self.make_room(), "making room for recordings")

    async def run(self) -> None:
        """Enforce the limits periodically until cancelled."""
        while True:
            await self.make_room()
            await self._clock.sleep(_INTERVAL)

    async def make_room(self) -> None:
        """Remove recordings beyond the limits."""
        await asyncio.to_thread(self._make_room)

    async def of(self, namespace: str, instance: str, after: float = 0.0) -> list[Recording]:
        """Return an instance's recordings started after a time, the newest first, at most `MAX_LISTED`."""
        return await asyncio.to_thread(lambda: list(self._of(namespace, instance, after))[:MAX_LISTED])

    async def find(self, namespace: str, instance: str, session: str, after: float = 0.0) -> Recording | None:
        """Return the recording of a session."""
        return await asyncio.to_thread(
            lambda: next((e for e in self._of(namespace, instance, after, session) if e), None)
        )

    def _of(self, namespace: str, instance: str, after: float, session: str = "") -> Iterator[Recording]:
        files = self._folder.joinpath(namespace, instance).glob(f"*{SUFFIX}")
        for path in sorted(files, reverse=True):  # file names start with the time
            if session and path.stem.partition("-")[2] != session:
                continue
            with suppress(OSError), path.open("rb") as file:
                header = read_header(file.readline(MAX_HEADER))
                status = os.fstat(file.fileno())
                if header is not None and header.timestamp >= after:
                    yield Recording(path, header, status.st_mtime, status.st_size)

    def _make_room(self) -> None:
        oldest = self._clock.now() - self._limits.days * DAY
        kept: dict[str, list[_Kept]] = defaultdict(list)
        # By the time of the last write, which is the first field: the oldest recordings go first.
        for each in sorted(self._all()):
            if each.changed < oldest:
                self._remove(each)
            else:
                kept[each.namespace].append(each)
        sizes = {namespace: sum(each.size for each in files) for namespace, files in kept.items()}
        total = sum(sizes.values())
        while total > self._limits.size:
            most = max(sizes, key=lambda name: sizes[name])
            first = kept[most].pop(0)
            self._remove(first)
            sizes[most] -= first.size
            total -= first.size

    def _all(self) -> Iterator[_Kept]:
        for path in self._folder.glob(f"*/*/*{SUFFIX}"):
            with suppress(OSError):
                status = path.lstat()
                yield _Kept(status.st_mtime, max(status.st_size, _BLOCK), path, path.parent.parent.name)

    def _remove(self, each: _Kept) -> None:
        try:
            each.path.unlink(missing_ok=True)
            for folder in (each.path.parent, each.path.parent.parent):
                # Fails while other recordings are left. A session that begins at this moment may lose its new folder:
                # it is refused, and the client connects again.
                folder.rmdir()
        except OSError as error:
            if each.path.exists():
                _log.warning("recording cannot be removed", file=str(each.path), why=str(error))


async def content(recording: Recording) -> AsyncIterator[bytes]:
    """Yield the recording's bytes up to its size when it was found."""
    left = recording.size
    with recording.path.open("rb") as file:
        while left and (chunk := await asyncio.to_thread(file.read, min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk
