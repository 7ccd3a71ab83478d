"""All recordings of a node: `<folder>/<namespace>/<instance>/<time>-<session>.cast`, kept for some days and bytes.

When there are too many bytes, the namespace that has most of them loses its oldest recording: nobody can push the
recordings of others out by making large ones. For the same reason a single one may take only a part of all, and a small
one counts as a block of the disk.
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

from tarmac.agent.http.machines.casts import LARGEST_HEADER, SUFFIX, CastFacts, CastHeader, CastWriter, read_header
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log
from tarmac.base.tasks import Tasks

DAY = 24 * 3600.0
MOST_SHOWN = 1000
_PART = 4  # a recording may take a quarter of all
_BLOCK = 4096
_LOOK_SECONDS = 3600.0
_CHUNK = 64 * 1024

_log = log("recordings")


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """How long recordings are kept, and how much of them."""

    days: float = 30.0
    size: int = 256 * 1024 * 1024


class Recording(NamedTuple):
    """One that is there. `ended` is when it last grew."""

    path: Path
    header: CastHeader
    ended: float
    size: int


class _Kept(NamedTuple):
    """What is known of a file without opening it."""

    changed: float
    size: int
    path: Path
    namespace: str


class Recordings:
    """Of one node."""

    def __init__(self, folder: Path, clock: Clock, limits: RecordingLimits | None = None) -> None:
        self._folder = folder
        self._clock = clock
        self._limits = limits or RecordingLimits()
        self._tasks = Tasks()
        self._since = 0  # bytes that were written since room was last made

    def begin(self, namespace: str, instance: str, facts: CastFacts) -> CastWriter:
        """A new one. Raises OSError."""
        stamp = rfc3339(self._clock.now()).replace("-", "").replace(":", "")
        path = self._folder / namespace / instance / f"{stamp}-{facts.session}{SUFFIX}"
        largest = self._limits.size // _PART
        return CastWriter(path, f"{namespace}/{instance}", facts, self._clock, largest)

    def ended(self, recording: CastWriter) -> None:
        """One is over: there may be too much now."""
        self._since += recording.written + _BLOCK
        if self._since > self._limits.size // (2 * _PART) and not len(self._tasks):
            self._since = 0
            self._tasks.begin(self.make_room(), "making room for recordings")

    async def run(self) -> None:
        """Keep to the limits until cancelled."""
        while True:
            await self.make_room()
            await self._clock.sleep(_LOOK_SECONDS)

    async def make_room(self) -> None:
        """Remove what is too old or too much."""
        await asyncio.to_thread(self._make_room)

    async def of(self, namespace: str, instance: str, after: float = 0.0) -> list[Recording]:
        """Those of an instance that began after a moment, the newest first; not more than can be shown."""
        return await asyncio.to_thread(lambda: list(self._of(namespace, instance, after))[:MOST_SHOWN])

    async def find(self, namespace: str, instance: str, session: str, after: float = 0.0) -> Recording | None:
        """One of them, by its session."""
        return await asyncio.to_thread(
            lambda: next((e for e in self._of(namespace, instance, after, session) if e), None)
        )

    def _of(self, namespace: str, instance: str, after: float, session: str = "") -> Iterator[Recording]:
        files = self._folder.joinpath(namespace, instance).glob(f"*{SUFFIX}")
        for path in sorted(files, reverse=True):  # their names begin with the time
            if session and path.stem.partition("-")[2] != session:
                continue
            with suppress(OSError), path.open("rb") as file:
                header = read_header(file.readline(LARGEST_HEADER))
                status = os.fstat(file.fileno())
                if header is not None and header.timestamp >= after:
                    yield Recording(path, header, status.st_mtime, status.st_size)

    def _make_room(self) -> None:
        oldest = self._clock.now() - self._limits.days * DAY
        kept: dict[str, list[_Kept]] = defaultdict(list)
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
                folder.rmdir()
        except OSError as error:
            if each.path.exists():
                _log.warning("a recording cannot be removed", file=str(each.path), why=str(error))


async def content(recording: Recording) -> AsyncIterator[bytes]:
    """Its bytes, as far as they were written when it was asked for."""
    left = recording.size
    with recording.path.open("rb") as file:
        while left and (chunk := await asyncio.to_thread(file.read, min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk
