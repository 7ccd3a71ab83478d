"""The cluster's keys in a backup: AES-256-GCM under a passphrase, by scrypt (N = 2^17, r = 8, p = 1).

The sealed bytes are `\\x01`, a salt of 16 bytes, a check of 32, a nonce of 12 and the ciphertext of a JSON object of
file names and base64. scrypt gives 64 bytes: half is the key; the SHA-256 of the other half is the check, which tells a
wrong passphrase from a modified file. The backup's digest is authenticated with the keys.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from tarmac.base.randomness import Randomness

_MARK = b"\x01"
_SALT, _CHECK, _NONCE = 16, 32, 12


class WrongPassphrase(ValueError):
    """The passphrase is wrong."""


class KeysChanged(ValueError):
    """The passphrase is right, but the sealed data or the digest was modified."""


def seal_keys(files: Mapping[str, bytes], passphrase: bytes, digest: str, randomness: Randomness) -> bytes:
    """Seal files by name, bound to the backup with this digest."""
    content = msgspec.json.encode({name: base64.b64encode(data).decode() for name, data in files.items()})
    salt, nonce = randomness.randbytes(_SALT), randomness.randbytes(_NONCE)
    key, check = _derived(passphrase, salt)
    return _MARK + salt + check + nonce + AESGCM(key).encrypt(nonce, content, digest.encode())


def open_keys(sealed: bytes, passphrase: bytes, digest: str) -> dict[str, bytes]:
    """Return the files. Raises WrongPassphrase, KeysChanged."""
    if sealed[:1] != _MARK:
        raise KeysChanged("the keys are sealed in an unknown way")
    rest = sealed[1:]
    salt, check = rest[:_SALT], rest[_SALT : _SALT + _CHECK]
    nonce, content = rest[_SALT + _CHECK :][:_NONCE], rest[_SALT + _CHECK + _NONCE :]
    key, wanted = _derived(passphrase, salt)
    if not compare_digest(check, wanted):
        raise WrongPassphrase("the passphrase is not the one that it was made with")
    try:
        opened = AESGCM(key).decrypt(nonce, content, digest.encode())
    except InvalidTag:
        raise KeysChanged("the passphrase is right, but its keys or its digests were changed since") from None
    return {name: base64.b64decode(text) for name, text in msgspec.json.decode(opened).items()}


def _derived(passphrase: bytes, salt: bytes) -> tuple[bytes, bytes]:
    # Takes 128 MiB (128 * N * r bytes) and a part of a second: never on the event loop of a server.
    derived = Scrypt(salt=salt, length=64, n=1 << 17, r=8, p=1).derive(passphrase)
    return derived[:32], sha256(derived[32:]).digest()
