"""Copies all objects of one store into a second store and proves that both hold the same.

Objects are written in the order of their revisions, many concurrently, each in its own write. Objects that are present
already are left alone and surplus objects are deleted, so an interrupted copy is completed by starting it again.

The proof is a count and a digest over bucket, name and value of every object, in order. The values are those that
readers get: encryption at rest and revisions may differ between the two stores.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from tarmac.store.interface import Entry, Store, unsplice

_MAX_CONCURRENT_WRITES = 256


@dataclass(frozen=True)
class Contents:
    """Count and digest of a store's objects; equal for stores with equal contents."""

    count: int
    digest: str


def contents_of(store: Store) -> Contents:
    """Count and digest of every visible object."""
    digest, count = hashlib.sha256(), 0
    for bucket in sorted(store.buckets()):
        for entry in store.list(bucket).entries:
            for part in (bucket.encode(), entry.name.encode(), unsplice(entry)):
                # Lengths first: otherwise the end of one part could pass for the beginning of the next.
                digest.update(len(part).to_bytes(8, "big"))
                digest.update(part)
            count += 1
    return Contents(count, digest.hexdigest())


async def copy_objects(source: Store, target: Store) -> None:
    """Make `target` hold exactly the objects of `source`. Raises StoreError.

    Both are started and have no other writer.
    """
    await _in_rounds(_superfluous(source, target))
    ordered = sorted(_everything(source), key=lambda each: each[1].revision)
    await _in_rounds(_missing(ordered, target))


def _everything(store: Store) -> Iterator[tuple[str, Entry]]:
    for bucket in store.buckets():
        for entry in store.list(bucket).entries:
            yield bucket, entry


def _superfluous(source: Store, target: Store) -> list[Callable[[], Awaitable[Entry]]]:
    return [
        _deleting(target, bucket, entry)
        for bucket, entry in _everything(target)
        if source.get(bucket, entry.name) is None
    ]


def _missing(wanted: list[tuple[str, Entry]], target: Store) -> Iterator[Callable[[], Awaitable[Entry]]]:
    for bucket, entry in wanted:
        value, present = unsplice(entry), target.get(bucket, entry.name)
        if present is None:
            yield _creating(target, bucket, entry.name, value)
        elif unsplice(present) != value:
            yield _updating(target, bucket, present, value)


def _creating(target: Store, bucket: str, name: str, value: bytes) -> Callable[[], Awaitable[Entry]]:
    return lambda: target.create(bucket, name, value)


def _updating(target: Store, bucket: str, present: Entry, value: bytes) -> Callable[[], Awaitable[Entry]]:
    return lambda: target.update(bucket, present.name, value, present.revision)


def _deleting(target: Store, bucket: str, present: Entry) -> Callable[[], Awaitable[Entry]]:
    return lambda: target.delete(bucket, present.name, present.revision)


async def _in_rounds(writes: Iterable[Callable[[], Awaitable[Entry]]]) -> None:
    """Run the writes in rounds of `_MAX_CONCURRENT_WRITES`: a write queued behind too many would exceed its timeout."""
    turn: list[Awaitable[Entry]] = []
    for write in writes:
        turn.append(write())
        if len(turn) == _MAX_CONCURRENT_WRITES:
            await asyncio.gather(*turn)
            turn = []
    await asyncio.gather(*turn)
