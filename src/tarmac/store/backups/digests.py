"""Digest of a bucket's contents: equal for the same objects, independent of their order and revisions.

The digest of a bucket is the SHA-256 over the digests of its objects in the order of their names; an object's digest
covers its bucket, its name and its value as stored, so comparing needs no key of sealed Secrets.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


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
