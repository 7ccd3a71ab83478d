"""Authentication of backups: a tag for each encryption key that the cluster has when the backup is made.

A tag is the HMAC-SHA256 of the backup's digest. Its key is derived by HKDF from an encryption key of `secrets.key`, so
a restore needs no key that the restored Secrets do not need anyway, and retiring an encryption key also ends the power
of a stolen copy to forge backups. The derivation separates both uses: a tag reveals nothing about the encryption key. A
tag stands under the id of its key, also derived: it tells a changed backup from the backup of another cluster, which
the operator's ids cannot (the first key of every cluster is `key1`).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_TAG_KEY, _TAG_KEY_BYTES = b"tarmac backup v1 tag", 32
_KEY_ID, _KEY_ID_BYTES = b"tarmac backup v1 key id", 16


class TagMismatch(ValueError):
    """A key made a tag of this backup, but for other content."""


def tags_of(digest: str, keys: Iterable[bytes]) -> dict[str, str]:
    """Return the tag of a backup with this digest for each key, by the key's id."""
    return {_key_id(key): _tag(digest, key) for key in keys}


def is_tagged(tags: Mapping[str, str], digest: str, keys: Iterable[bytes]) -> bool:
    """Return True if one of these keys has authenticated the backup; False if it knows none. Raises TagMismatch."""
    found = {key: tags[name] for key in keys if (name := _key_id(key)) in tags}
    for key, tag in found.items():
        if not hmac.compare_digest(_tag(digest, key).encode(), tag.encode()):
            raise TagMismatch("its content is not the content that its cluster authenticated")
    return bool(found)


def _tag(digest: str, key: bytes) -> str:
    return hmac.digest(_derived(key, _TAG_KEY, _TAG_KEY_BYTES), digest.encode(), "sha256").hex()


def _key_id(key: bytes) -> str:
    return _derived(key, _KEY_ID, _KEY_ID_BYTES).hex()


def _derived(key: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(hashes.SHA256(), size, salt=None, info=purpose).derive(key)
