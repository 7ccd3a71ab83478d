"""A process that writes to a SQLite store until it is killed: `python -m tests.store.writing_process PATH WRITERS`.

Each acknowledged write is one line on standard output, written after the acknowledgement: type, name, revision, text.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from tarmac.store.interface import Entry
from tarmac.store.sqlite import SqliteStore
from tests.store.objects import PODS, value


async def write_for_ever(store: SqliteStore, writer: int) -> None:
    """Create, update and delete keys that no other writer touches."""
    dice = random.Random()
    while True:
        name = f"{writer}/{dice.randrange(5)}"
        text = f"{dice.getrandbits(64):x}"
        head = store.head(PODS, name)
        if head is None:
            acknowledged("ADDED", await store.create(PODS, name, value(text, dice.randrange(4000))), text)
        elif dice.random() < 0.3:
            acknowledged("DELETED", await store.delete(PODS, name, head.revision, value(text)), text)
        else:
            acknowledged("MODIFIED", await store.update(PODS, name, value(text), head.revision), text)


def acknowledged(type: str, entry: Entry, text: str) -> None:
    """Write a line to the parent without buffering."""
    os.write(1, f"{type} {entry.name} {entry.revision} {text}\n".encode())


async def main(path: str, writers: int) -> None:
    """Write until killed."""
    store = SqliteStore(Path(path), wal_pages=64)  # so small that kills hit checkpoints too
    await store.start()
    await asyncio.gather(*(write_for_ever(store, writer) for writer in range(writers)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
