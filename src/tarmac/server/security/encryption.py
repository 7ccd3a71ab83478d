"""Secrets encrypted at rest: the store's `Sealer`, with keys from a file.

The key file (mode 0600) has one key per line, `<id> <base64 of 32 bytes>`; `#` starts a comment. The first key seals,
all of them open, so a key is rotated by putting a new one first, rewriting the Secrets, and removing the old one. A
sealed value is `\\x01`, the length of the key's id, the id, a nonce of 12 bytes and the AES-256-GCM ciphertext; bucket
and name are authenticated with it, so a value moved to another name does not open. A value that starts with `{` was
written before encryption was on, and is read as it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tarmac.base.randomness import Randomness
from tarmac.server.security.files import directory_lock, write_private

SEALED_BUCKETS = frozenset({"core/secrets"})
_MARK = b"\x01"
_NONCE = 12


class BadKeyFile(ValueError):
    """The key file cannot be used; the text tells the operator why."""


class SecretSealer:
    """Seals with the first key, opens with whichever key sealed."""

    def __init__(
        self, keys: Iterable[tuple[str, bytes]], randomness: Randomness, buckets: frozenset[str] = SEALED_BUCKETS
    ) -> None:
        """`randomness` gives the nonces, so it has no seed: no nonce may come twice under one key."""
        self._randomness = randomness
        self._keys = {name.encode(): AESGCM(key) for name, key in keys}
        self._buckets = buckets
        self._current = next(iter(self._keys))
        self._head = _MARK + bytes([len(self._current)]) + self._current

    @classmethod
    def from_file(cls, path: Path, randomness: Randomness) -> SecretSealer:
        """With the keys of a file, which is made with a fresh key when it does not exist. Raises BadKeyFile."""
        with directory_lock(path.parent):
            if not path.exists():
                write_private(path, b"key1 %b\n" % base64.b64encode(randomness.randbytes(32)))
        if path.stat().st_mode & 0o077:
            raise BadKeyFile(f"{path} can be read by others: its mode must be 0600")
        return cls(_parse(path), randomness)

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """The bytes to store."""
        if bucket not in self._buckets:
            return value
        nonce = self._randomness.randbytes(_NONCE)
        return self._head + nonce + self._keys[self._current].encrypt(nonce, value, _context(bucket, name))

    def open(self, bucket: str, name: str, blob: bytes) -> bytes:
        """The value again. Raises ValueError with a text for the operator."""
        if bucket not in self._buckets or blob[:1] == b"{":
            return blob
        if blob[:1] != _MARK:
            raise ValueError(f"{bucket} {name}: sealed in an unknown way")
        start = 2 + blob[1]
        key_id, nonce, sealed = blob[2:start], blob[start : start + _NONCE], blob[start + _NONCE :]
        key = self._keys.get(key_id)
        if key is None:
            text = key_id.decode(errors="replace")
            raise ValueError(f'{bucket} {name}: sealed with key "{text}", which the encryption key file does not have')
        try:
            return key.decrypt(nonce, sealed, _context(bucket, name))
        except InvalidTag:
            text = "the encryption key file has another key under that id, or the value was changed"
            raise ValueError(f'{bucket} {name}: does not open with key "{key_id.decode()}": {text}') from None


def _context(bucket: str, name: str) -> bytes:
    return f"{bucket}\0{name}".encode()


def _parse(path: Path) -> list[tuple[str, bytes]]:
    keys: dict[str, bytes] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            name, text = words
            key = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            raise BadKeyFile(f"{path}, line {number}: expected a key id and a base64 key") from None
        if len(key) != 32 or name in keys or len(name) > 255:
            raise BadKeyFile(f"{path}, line {number}: keys have 32 bytes, and ids of their own of at most 255 bytes")
        keys[name] = key
    if not keys:
        raise BadKeyFile(f"{path} has no key")
    return list(keys.items())
