"""Encryption at rest of Secrets and of the cluster's own keys: the store's `Sealer`, with keys from a file.

The key file (mode 0600) has one key per line, `<id> <base64 of 32 bytes>`; `#` starts a comment. The first key seals,
all of them open. After a rotation the store has a record of the keys (`keyrecords`), and the file is a copy. The sealer
learns the keys from the record itself, as it is sealed or opened on its way to or from the log. So a server can open
every later entry of the log, however far it lags behind. The record is sealed with the oldest trusted key until that
one is retired, so that a server that was down when the rotation began can open it.

A sealed value is `\\x01`, the length of the key's id, the id, a nonce of 12 bytes and the AES-256-GCM ciphertext.
Bucket and name are authenticated too, so a value moved to a different name does not open. A value that starts with `{`
was written before encryption was enabled, and is returned unchanged.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tarmac.base.randomness import Randomness
from tarmac.server.security.keys.keyrecords import BUCKET, ENCRYPTION, KeptKey, KeyRecord, decode_record, first_record
from tarmac.server.security.keys.privatefiles import directory_lock, write_private

SEALED_BUCKETS = frozenset({"core/secrets", BUCKET})
RECORD = (BUCKET, ENCRYPTION)
_MARK = b"\x01"
_NONCE = 12


class BadKeyFile(ValueError):
    """An unusable key file; the text tells the operator the reason."""


class SecretSealer:
    """Seals with the current key, opens with any known key."""

    def __init__(
        self, keys: Iterable[tuple[str, bytes]], randomness: Randomness, buckets: frozenset[str] = SEALED_BUCKETS
    ) -> None:
        """`randomness` generates the nonces and must not be seeded: a nonce must never repeat under one key."""
        self._randomness = randomness
        self._keys = {name.encode(): AESGCM(key) for name, key in keys}
        self._buckets = buckets
        self._current = next(iter(self._keys))
        self._step = 0  # of the newest record learnt

    @classmethod
    def from_file(cls, path: Path, randomness: Randomness) -> SecretSealer:
        """Load the keys of a file, creating it with a fresh key if it does not exist. Raises BadKeyFile."""
        # Two servers that start together in one directory would each write a key, and seal with keys that the other
        # lacks.
        with directory_lock(path.parent):
            if not path.exists():
                write_private(path, b"key1 %b\n" % base64.b64encode(randomness.randbytes(32)))
        if path.stat().st_mode & 0o077:
            raise BadKeyFile(f"{path} can be read by others: its mode must be 0600")
        return cls(read_keys(path), randomness)

    @property
    def opened_first(self) -> tuple[tuple[str, str], ...]:
        """The record of the keys: other values may be sealed with keys that only it contains."""
        return (RECORD,)

    @property
    def sealing(self) -> str:
        """The id of the sealing key."""
        return self._current.decode()

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """Return the bytes to store."""
        if bucket not in self._buckets:
            return value
        key = self._learn(value) if (bucket, name) == RECORD else self._current
        # Random nonces of 96 bits suffice for 2^32 values under one key (NIST SP 800-38D, section 8.3): rotate before.
        nonce = self._randomness.randbytes(_NONCE)
        # One byte for the length: `read_keys` bounds ids at 255 bytes.
        head = _MARK + bytes([len(key)]) + key
        return head + nonce + self._keys[key].encrypt(nonce, value, _context(bucket, name))

    def open(self, bucket: str, name: str, blob: bytes) -> bytes:
        """Return the plain value. Raises ValueError with a text for the operator."""
        value = self._opened(bucket, name, blob)
        if (bucket, name) == RECORD:
            self._learn(value)
        return value

    def is_current(self, bucket: str, name: str, blob: bytes) -> bool:
        """Return True if the sealing key opens the value, or if the value is not sealed."""
        if blob[:1] == _MARK and blob[2 : 2 + blob[1]] != self._current:
            return False
        try:
            self._opened(bucket, name, blob)
        except ValueError:  # a different key of the same id
            return False
        return True

    def _learn(self, value: bytes) -> bytes:
        """Adopt the keys of a record, unless a newer one is known. Return the key that seals the record."""
        record = decode_record(value)
        keys = {name.encode(): AESGCM(base64.b64decode(kept.pem)) for name, kept in record.keys.items()}
        if record.step >= self._step:
            # Retired keys stay until the process ends: entries still in flight may need them.
            self._keys = {**self._keys, **keys}
            self._current, self._step = record.signing.encode(), record.step
        return record.signing.encode() if record.retiring else next(iter(keys))

    def _opened(self, bucket: str, name: str, blob: bytes) -> bytes:
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


def encryption_record(path: Path, now: float) -> KeyRecord:
    """Return the record of a cluster that has only its file: the first key seals. Raises BadKeyFile."""
    keys = read_keys(path)
    first = first_record(ENCRYPTION, keys[0][0], _kept(keys[0][1]), now)
    # A record orders keys by age, and the sealing key is the newest.
    return msgspec.structs.replace(first, keys={name: _kept(key) for name, key in reversed(keys)}, rewritten=True)


def follow_keys(path: Path, record: KeyRecord) -> None:
    """Rewrite the file from the record, the sealing key first."""
    names = sorted(record.keys, key=lambda name: name != record.signing)
    text = "".join(f"{name} {record.keys[name].pem}\n" for name in names).encode()
    with directory_lock(path.parent):
        if path.read_bytes() != text:
            write_private(path, text)


def _kept(key: bytes) -> KeptKey:
    return KeptKey(base64.b64encode(key).decode())


def read_keys(path: Path) -> list[tuple[str, bytes]]:
    """Return the keys of a file by id, the sealing one first. Raises BadKeyFile, OSError."""
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
