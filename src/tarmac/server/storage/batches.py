"""Splits entries into batches, so that work over thousands of them can yield in between (see `base.pieces`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.store.interface import Entry

_MAX_BATCH = 64  # objects
_MAX_BATCH_BYTES = 256 << 10  # bytes: batches above this size are split into single objects


def batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield the entries in order, in batches small enough not to block the event loop noticeably."""
    for start in range(0, len(entries), _MAX_BATCH):
        batch = entries[start : start + _MAX_BATCH]
        if sum([len(entry.raw) for entry in batch]) <= _MAX_BATCH_BYTES:
            yield batch
        else:
            yield from ([entry] for entry in batch)
