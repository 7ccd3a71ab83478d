"""Copies the contents of a store at one revision while servers write to it.

A SQLite store is read by a process other than its server, in one read transaction: SQLite shows a consistent snapshot
whatever is written meanwhile, and the server neither waits nor knows. The transaction keeps the write-ahead log from
being restarted, so it does nothing but copy. Rows are checked against their sums on the way.

An etcd store is read in pages, all at the revision of the first. If etcd compacts that revision meanwhile, the copy
fails and has to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import apsw

from tarmac.base.clock import Clock
from tarmac.store.backups.file import in_batches
from tarmac.store.interface import Compacted, Damaged, Unavailable
from tarmac.store.open import sqlite_path
from tarmac.store.sqlite.checking import sound_rows
from tarmac.store.sqlite.format import FORMAT, format_of, read_total
from tarmac.store.sqlite.marker import marker_path, read_marker
from tarmac.store.sqlite.opening import OpenErrors, connect
from tarmac.store.sqlite.replacing import restored_beside
from tarmac.store.sqlite.sums import LogRow, row_sum

Take = Callable[[Sequence[LogRow]], None]
_BUSY_TIMEOUT_MS = 10_000


async def copy_store(url: str, clock: Clock, take: Take) -> int:
    """Pass every live row to `take`; returns their revision. Raises Unavailable, Compacted, ValueError."""
    if url.startswith("sqlite://"):
        return copy_sqlite(sqlite_path(url), take)
    if url.startswith("etcd://"):
        return await _copy_etcd(url, clock, take)
    raise ValueError(f"store {url!r}: only sqlite:// and etcd:// can be backed up")


def copy_sqlite(path: Path, take: Take) -> int:
    """Copy from the file of a SQLite store. Raises Unavailable, Damaged."""
    if not path.exists():
        raise Unavailable(f"there is no store at {path}")
    if restored_beside(path).exists():
        raise Unavailable(f"a restore of {path} was interrupted: start its server, or repeat the restore")
    # Before the transaction begins: a marker is never ahead of the durable state, so the revision it names must be
    # seen.
    mark, _ = read_marker(marker_path(path))
    newest = 0
    with OpenErrors(path), closing(connect(path)) as db, db:
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        version = format_of(db, path)
        if version != FORMAT:
            raise Unavailable(f"{path} has format {version}: start its server once, which raises it to {FORMAT}")
        total = read_total(db)
        newest = max(total.floor, int(db.execute("SELECT ifnull(max(revision), 0) FROM log").get))
        if mark is not None and mark.id == total.id and newest < mark.revision:
            raise Damaged(f"it ends at revision {newest}, but had come to {mark.revision}")
        for batch in in_batches(_live(db)):
            take(batch)
    return newest


def _live(db: apsw.Connection) -> Iterator[LogRow]:
    """Yield rows that no later row has replaced and that are not deletes."""
    replaced = {previous for (previous,) in db.execute("SELECT previous FROM log WHERE previous > 0")}
    for row in sound_rows(db):
        if not row[6] and row[0] not in replaced:
            yield LogRow._make(row)


async def _copy_etcd(url: str, clock: Clock, take: Take) -> int:
    from tarmac.store.etcd.client import EtcdClient  # imports libraries that SQLite copies do not need
    from tarmac.store.etcd.loading import pages
    from tarmac.store.etcd.records import EtcdLayout
    from tarmac.store.etcd.settings import EtcdSettings

    parts = urlsplit(url)
    settings = EtcdSettings.parse(parts.netloc, parse_qsl(parts.query, keep_blank_values=True))
    client, records, at = EtcdClient(settings, clock), EtcdLayout(settings.prefix, None), int(clock.now())
    revision = 0
    try:
        async for page in pages(client, records):
            records.take_offset(page.kvs)  # `!` sorts before every object, so none is read without it
            if any(kv.key == records.restore_key for kv in page.kvs):
                raise Unavailable("a restore into this etcd was interrupted: start a server, which finishes it")
            revision = revision or records.revision(page.header.revision)
            take([_row(*each, at) for each in records.stored(page.kvs)])
    except Compacted:
        raise Unavailable("etcd has forgotten the revision that was being copied: try again") from None
    finally:
        await client.close()
    return revision


def _row(bucket: str, name: str, created: int, modified: int, value: bytes, at: int) -> LogRow:
    columns = (modified, at, bucket, name, created, 0, 0, value)
    return LogRow(*columns, row_sum(*columns))
