"""Digest of a bucket's contents: equal for the same objects, independent of their order and revisions.

The digest of a bucket is the SHA-256 over the digests of its objects in the order of their names; an object's digest
covers its bucket, its name and its value as stored, so comparing needs no key of sealed Secrets.

The digest of rows covers every column and depends on their order.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from tarmac.store.sqlite.sums import LogRow


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
