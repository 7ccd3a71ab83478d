"""Entries a few at a time, so that work over thousands of them can pause in between (see `base.pieces`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.store.interface import Entry

_BATCH = 64  # objects
_LARGE = 256 << 10  # bytes: objects that have more together are taken one by one


def batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Entries in order, as many at a time as nobody notices."""
    for start in range(0, len(entries), _BATCH):
        batch = entries[start : start + _BATCH]
        if sum([len(entry.raw) for entry in batch]) <= _LARGE:
            yield batch
        else:
            yield from ([entry] for entry in batch)
