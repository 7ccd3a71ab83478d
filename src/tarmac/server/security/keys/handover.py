"""Encrypts the data that a server hands to a joining server, for that joiner alone.

Both sides generate an ephemeral X25519 key. The encryption key is derived from their shared secret and the token's
secret, over both public keys, the token's id and the joiner's name. An eavesdropper cannot decrypt a recording without
the joiner's private key, which never leaves its host; that key without the token does not suffice either; and data
sealed for one joiner under one token is useless to any other joiner.
"""

from __future__ import annotations

from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_SIZE = 32
_NONCE = bytes(12)  # constant, since each key seals once


class BadSeal(ValueError):
    """Data that cannot be decrypted: sealed for a different key or token, or modified."""


class Purpose(NamedTuple):
    """The context of an exchange; both sides must agree on it."""

    token: str
    secret: str  # of the token
    name: str  # of the joiner

    @property
    def info(self) -> bytes:
        """The public part of the context."""
        return f"tarmac join v1 {self.token} {self.name}".encode()


class Sealed(NamedTuple):
    """The message sent to the joiner."""

    public_key: bytes
    content: bytes


def seal(content: bytes, joiner: bytes, purpose: Purpose) -> Sealed:
    """Seal for the holder of the private key of `joiner`. Raises ValueError if that is no key."""
    # A new key for each message: the constant nonce is safe only under a key that seals once.
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    # Raises ValueError for a point of low order, whose shared secret would be zero whatever our key (RFC 7748, section
    # 6.1).
    shared = own.exchange(X25519PublicKey.from_public_bytes(joiner))
    key = _derived(shared, joiner, public, purpose)
    return Sealed(public, AESGCM(key).encrypt(_NONCE, content, purpose.info))


def unseal(sealed: Sealed, own: X25519PrivateKey, purpose: Purpose) -> bytes:
    """Return the content. Raises BadSeal."""
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(sealed.public_key))
        key = _derived(shared, own.public_key().public_bytes_raw(), sealed.public_key, purpose)
        return AESGCM(key).decrypt(_NONCE, sealed.content, purpose.info)
    except (InvalidTag, ValueError) as error:
        raise BadSeal("what the server sent was sealed for another key or token, or was changed") from error


def _derived(shared: bytes, joiner: bytes, server: bytes, purpose: Purpose) -> bytes:
    kdf = HKDF(hashes.SHA256(), KEY_SIZE, salt=joiner + server, info=purpose.info)
    return kdf.derive(shared + purpose.secret.encode())
