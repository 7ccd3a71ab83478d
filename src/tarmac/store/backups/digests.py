"""What a bucket holds, in one number: equal where two stores have the same objects, in whatever order and revisions.

The digest of a bucket is the SHA-256 over the digests of its objects in the order of their names; an object's is over
its bucket, its name and its value as it lies in the store, so nobody needs the key of Secrets to compare.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


class BucketDigest(NamedTuple):
    """How many objects there are, and what they come to."""

    objects: int
    digest: str


class Digests:
    """Adds up objects as they come."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, bytes]] = {}

    def add(self, bucket: str, name: str, value: bytes) -> None:
        """One more object."""
        each = sha256(b"%b\0%b\0" % (bucket.encode(), name.encode()))
        each.update(value)
        self._found.setdefault(bucket, {})[name] = each.digest()

    def by_bucket(self) -> dict[str, BucketDigest]:
        """What there is, in the order of the buckets' names."""
        return {
            bucket: BucketDigest(len(found), sha256(b"".join(found[name] for name in sorted(found))).hexdigest())
            for bucket, found in sorted(self._found.items())
        }
