"""The backup file: a database in the SQLite store's format, plus a table `backup` that states its contents.

The log holds the live rows of one revision, with their sums; values are as stored, so Secrets are sealed. The one row
of `backup` has the count and the digest of each bucket, the digest of all rows with every column, and a digest over all
of that. The cluster authenticates that last digest with tags of its keys. If the cluster's keys are included, they are
sealed together with it: a reader with the passphrase therefore knows that no part was changed.

Sums detect disk faults; digests also detect rows that were changed and summed anew. Only the tags and the seal of the
keys detect a file whose digests were recomputed as well. Format 1 has neither tags nor the digest of all rows.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from tarmac.store.backups.errors import BackupCutOff, BackupDamaged, NotABackup
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.checking import SELECT, UNREADABLE, check_pages, sound_rows
from tarmac.store.sqlite.format import create_tables, format_of, insert_rows, write_total
from tarmac.store.sqlite.sums import LogRow, Total

BACKUP_FORMAT = 2
_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_TABLE = """
CREATE TABLE backup (
    format   INTEGER NOT NULL,  -- of this table
    version  TEXT    NOT NULL,  -- of the Tarmac that wrote it
    revision INTEGER NOT NULL,  -- of the store: everything up to it is here
    at       INTEGER NOT NULL,  -- Unix seconds
    buckets  TEXT    NOT NULL,  -- JSON: objects and digest of each
    digest   TEXT    NOT NULL,  -- SHA-256 over all of the above and `rows`
    keys     BLOB,              -- the cluster's keys, sealed; NULL: they are kept elsewhere
    rows     TEXT    NOT NULL,  -- since format 2: SHA-256 over every column of every row
    tags     TEXT    NOT NULL   -- since format 2, JSON: the authentication of `digest`, by key
) STRICT;
"""
_COLUMNS = "format, version, revision, at, buckets, digest, keys"
_UNTAGGED = f"SELECT {_COLUMNS}, '', '{{}}' FROM backup"
_TAGGED = f"SELECT {_COLUMNS}, rows, tags FROM backup"

Authenticate = Callable[[str], Mapping[str, str]]
"""Returns the tags of a digest, by key."""


# Digest of a bucket's contents: equal for the same objects, independent of their order and revisions.
#
# The digest of a bucket is the SHA-256 over the digests of its objects in the order of their names; an object's digest
# covers its bucket, its name and its value as stored, so comparing needs no key of sealed Secrets.
#
# The digest of rows covers every column and depends on their order.


class BucketDigest(NamedTuple):
    """Number of objects, and the digest over them."""

    objects: int
    digest: str


class Digests:
    """Accumulates objects in any order."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, bytes]] = {}

    def add(self, bucket: str, name: str, value: bytes) -> None:
        """Add one object."""
        each = sha256(b"%b\0%b\0" % (bucket.encode(), name.encode()))
        each.update(value)
        self._found.setdefault(bucket, {})[name] = each.digest()

    def by_bucket(self) -> dict[str, BucketDigest]:
        """Return the digests in the order of the buckets' names."""
        return {
            bucket: BucketDigest(len(found), sha256(b"".join(found[name] for name in sorted(found))).hexdigest())
            for bucket, found in sorted(self._found.items())
        }


class RowsDigest:
    """Accumulates whole rows, oldest first."""

    def __init__(self) -> None:
        self._sum = sha256()

    def add(self, row: LogRow) -> None:
        """Add the next row."""
        bucket, name, value = row.bucket.encode(), row.name.encode(), row.value or b""
        # The lengths come first, so that no two different rows are the same bytes.
        lengths = f"{len(bucket)} {len(name)} {len(value) if row.value is not None else -1}"
        numbers = f"{row.revision} {row.at} {row.created} {row.previous} {row.deleted}"
        self._sum.update(f"{lengths} {numbers}\n".encode() + bucket + name)
        self._sum.update(value)

    def hex(self) -> str:
        """Return the digest so far."""
        return self._sum.hexdigest()


class BackupHead(NamedTuple):
    """The row of the table `backup`."""

    format: int
    version: str
    revision: int
    at: int
    buckets: dict[str, BucketDigest]
    digest: str
    keys: bytes | None
    rows: str
    tags: Mapping[str, str]

    @property
    def objects(self) -> int:
        """Number of objects."""
        return sum(each.objects for each in self.buckets.values())


class BackupWriter:
    """Writes a new file in one transaction. Nothing is durable before `finish` returns."""

    def __init__(self, path: Path, new_id: Callable[[], str]) -> None:
        self._path = path
        path.unlink(missing_ok=True)  # left by a killed backup
        path.touch(mode=0o600)
        self._db = apsw.Connection(str(path))
        self._digests = Digests()
        self._total = Total(new_id(), 0, 0, 0, 0)
        self._db.execute("BEGIN")
        create_tables(self._db, self._total)
        self._db.execute(_TABLE)

    def add(self, rows: Sequence[LogRow]) -> None:
        """Add live rows, each with a distinct key, in any order."""
        insert_rows(self._db, rows)
        added = self._total.added + sum(row.sum for row in rows)
        self._total = self._total._replace(rows=self._total.rows + len(rows), added=added)
        for row in rows:
            self._digests.add(row.bucket, row.name, row.value or b"")

    def finish(
        self, version: str, revision: int, at: int, seal: Callable[[str], bytes] | None, authenticate: Authenticate
    ) -> None:
        """Complete the file; `seal` returns the keys sealed with a digest, `authenticate` the digest's tags.

        The file is durable when this returns.
        """
        buckets, rows = (
            _encode(self._digests.by_bucket()),
            _rows_digest(self._db.execute(f"{SELECT} ORDER BY revision")),
        )
        digest = _digest(BACKUP_FORMAT, version, revision, at, buckets, rows)
        keys, tags = seal(digest) if seal is not None else None, msgspec.json.encode(authenticate(digest)).decode()
        row = (BACKUP_FORMAT, version, revision, at, buckets, digest, keys, rows, tags)
        self._db.execute("INSERT INTO backup VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        write_total(self._db, self._total._replace(floor=revision))
        self._db.execute("COMMIT")  # SQLite syncs the file
        self._db.close()

    def abandon(self) -> None:
        """Discard the file."""
        self._db.close(True)
        self._path.unlink(missing_ok=True)


def read_backup(path: Path) -> tuple[BackupHead, list[LogRow]]:
    """Read the whole file after verifying that it is as written. Raises BackupError, OSError."""
    _check_length(path)
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            _check_kind(db, path)
            check_pages(db)
            head = _read_head(db, path)
            rows = [LogRow._make(row) for row in sound_rows(db)]
    except Unavailable as error:
        if isinstance(error, Damaged):
            raise BackupDamaged(f"{path} is damaged: {error}") from error
        raise NotABackup(str(error)) from error
    except (*UNREADABLE, apsw.IOError) as error:
        raise BackupDamaged(f"{path} is damaged: {error}") from error
    _compare(path, head, rows)
    return head, rows


def is_backup(path: Path) -> bool:
    """True for a backup, even a damaged one: a new backup may replace it."""
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            _check_kind(db, path)
    except (NotABackup, Unavailable, apsw.Error):
        return False
    return True


def _check_length(path: Path) -> None:
    with path.open("rb") as file:
        header, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
    if len(header) < _HEADER:
        if header and _MAGIC.startswith(header[: len(_MAGIC)]):
            raise BackupCutOff(f"{path} is cut off: {size} bytes are left")
        raise NotABackup(f"{path} is no backup of Tarmac")
    if not header.startswith(_MAGIC):
        raise NotABackup(f"{path} is no backup of Tarmac")
    [page], [pages] = struct.unpack(">H", header[16:18]), struct.unpack(">I", header[28:32])
    wanted = (65536 if page == 1 else page) * pages
    if size < wanted:
        raise BackupCutOff(f"{path} is cut off: {size} of {wanted} bytes are left")
    if size > wanted:
        raise BackupDamaged(f"{path} is damaged: it has {size} bytes instead of {wanted}")


def _check_kind(db: apsw.Connection, path: Path) -> None:
    version = format_of(db, path)
    found = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'backup'").get
    if not version or not found:
        raise NotABackup(f"{path} is no backup of Tarmac")


def _read_head(db: apsw.Connection, path: Path) -> BackupHead:
    header: list[tuple[Any, Any]] = list(db.execute("SELECT format, version FROM backup"))
    if len(header) != 1 or not isinstance(header[0][0], int):
        raise Damaged("it has no valid header")
    [(format_, version)] = header
    if format_ > BACKUP_FORMAT:
        known = f"this program knows up to {BACKUP_FORMAT}: install tarmac {version}"
        raise NotABackup(f"{path} is a backup of format {format_}, {known}")
    [found] = db.execute(_UNTAGGED if format_ == 1 else _TAGGED)
    _, _, revision, at, buckets, digest, keys, rows, tags = found
    if _digest(format_, version, revision, at, buckets, rows) != digest:
        raise Damaged("its header fails its digest")
    try:
        known = msgspec.json.decode(tags, type=dict[str, str])
        return BackupHead(format_, version, revision, at, _decode(buckets), digest, keys, rows, known)
    except (TypeError, ValueError) as error:  # its author can write any text, with a digest that fits
        raise Damaged(f"its header cannot be read: {error}") from error


def _compare(path: Path, head: BackupHead, rows: Sequence[LogRow]) -> None:
    digests = Digests()
    for row in rows:
        digests.add(row.bucket, row.name, row.value or b"")
    found = digests.by_bucket()
    for bucket in sorted({*head.buckets, *found}):
        wanted, has = head.buckets.get(bucket), found.get(bucket)
        if wanted != has:
            counted = f"{has.objects if has else 0} objects of {wanted.objects if wanted else 0}"
            raise BackupDamaged(f"{path} is damaged: {bucket} has {counted}, which are not those that were backed up")
    if head.format > 1 and _rows_digest(rows) != head.rows:
        raise BackupDamaged(f"{path} is damaged: its rows are not those that were backed up")
    if any(row.deleted or row.revision > head.revision for row in rows):
        raise BackupDamaged(f"{path} is damaged: it has rows that no backup has")


def in_batches(rows: Iterator[LogRow], size: int = 500) -> Iterator[list[LogRow]]:
    """Group rows into batches for `BackupWriter.add`."""
    batch: list[LogRow] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _digest(format_: int, version: str, revision: int, at: int, buckets: str, rows: str) -> str:
    covered = f"{format_}\0{version}\0{revision}\0{at}\0{buckets}" + (f"\0{rows}" if format_ > 1 else "")
    return sha256(covered.encode()).hexdigest()


def _rows_digest(rows: Iterable[Sequence[Any]]) -> str:
    """Return the digest of rows in the order of their revisions, read one at a time."""
    digest = RowsDigest()
    for row in rows:
        digest.add(LogRow._make(row))
    return digest.hex()


def _encode(buckets: dict[str, BucketDigest]) -> str:
    return msgspec.json.encode({name: each._asdict() for name, each in buckets.items()}).decode()


def _decode(text: str) -> dict[str, BucketDigest]:
    found: dict[str, dict[str, Any]] = msgspec.json.decode(text)
    return {name: BucketDigest(**each) for name, each in found.items()}
