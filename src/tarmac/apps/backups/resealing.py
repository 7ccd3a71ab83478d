"""Fits the backup's Secrets and key records to the keys of this host, which stay.

Secrets that the current key does not open are encrypted with it. The records of the cluster's keys (`keyrecords`) stay
as the present store has them: servers follow them, and older ones would bring retired keys back, or those of another
cluster. Key files are not touched, so a kill at any moment leaves a store and keys that belong together.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tarmac.base.randomness import Randomness
from tarmac.server.security.encryption import RECORD, SEALED_BUCKETS, SecretSealer
from tarmac.server.security.keyrecords import BUCKET, decode_record
from tarmac.store.backups.restoring import Changed
from tarmac.store.sqlite.sums import LogRow

Keys = Sequence[tuple[str, bytes]]
"""Encryption keys by id, the sealing one first."""


class Fitted(NamedTuple):
    """The rows to restore, and those that change on the way."""

    rows: list[LogRow]
    changed: list[Changed]


def fitted(own: Keys, theirs: Keys, backup: Iterable[LogRow], present: Iterable[LogRow], *, foreign: bool) -> Fitted:
    """Return the contents under this host's keys. `theirs` open the backup. Raises ValueError."""
    records = {row.name: row for row in present if row.bucket == BUCKET}
    opener, sealer = SecretSealer(theirs, Randomness()), SecretSealer(own, Randomness())
    for row in records.values():
        _open(sealer, row)  # learns the key that seals now
    rows = [row for row in backup if row.bucket != BUCKET or not (foreign or row.name in records)]
    if (encryption := next(filter(_is_encryption_record, rows), None)) is not None:
        # Equal key files: a rotation that began just before the backup may be in the record and not in the file yet.
        if dict(own) == dict(theirs) or _has_keys_of(own, _open(opener, encryption)):
            _open(sealer, encryption)
        else:  # rotated since, and the present store is lost: without a record, the key file decides
            rows.remove(encryption)
    changed = [Changed(row.bucket, row.name, row.value or b"") for row in records.values()]
    return Fitted(rows, [*changed, *_resealed(rows, opener, sealer)])


def _resealed(rows: Iterable[LogRow], opener: SecretSealer, sealer: SecretSealer) -> Iterator[Changed]:
    for row in rows:
        if row.bucket not in SEALED_BUCKETS or _is_encryption_record(row):
            continue
        if not sealer.is_current(row.bucket, row.name, row.value or b""):
            yield Changed(row.bucket, row.name, sealer.seal(row.bucket, row.name, _open(opener, row)))


def _is_encryption_record(row: LogRow) -> bool:
    return (row.bucket, row.name) == RECORD


def _open(sealer: SecretSealer, row: LogRow) -> bytes:
    return sealer.open(row.bucket, row.name, row.value or b"")


def _has_keys_of(own: Keys, record: bytes) -> bool:
    known = dict(own)
    return all(known.get(name) == base64.b64decode(kept.pem) for name, kept in decode_record(record).keys.items())
