"""What one server hands to another so that both are servers of one cluster, sealed for the joiner alone.

Both sides make a key for this one exchange (X25519). What seals is derived from the secret that the two keys share and
from the token's secret, over both public keys, the token's id and the joiner's name. Whoever records everything opens
nothing without the joiner's private key, which never leaves its machine; whoever has that key but not the token opens
nothing either; and what was sealed for one joiner under one token means nothing to another.
"""

from __future__ import annotations

from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_SIZE = 32
_NONCE = bytes(12)  # each key seals once


class BadSeal(ValueError):
    """It does not open: it was sealed for somebody else, or changed."""


class Purpose(NamedTuple):
    """What an exchange is for; both sides must mean the same."""

    token: str
    secret: str  # of the token
    name: str  # of the joiner

    @property
    def info(self) -> bytes:
        """What may be known."""
        return f"tarmac join v1 {self.token} {self.name}".encode()


class Sealed(NamedTuple):
    """What travels."""

    public_key: bytes
    content: bytes


def seal(content: bytes, joiner: bytes, purpose: Purpose) -> Sealed:
    """For the holder of the private key of `joiner`. Raises ValueError when that is no key."""
    own = X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    shared = own.exchange(X25519PublicKey.from_public_bytes(joiner))
    key = _derived(shared, joiner, public, purpose)
    return Sealed(public, AESGCM(key).encrypt(_NONCE, content, purpose.info))


def unseal(sealed: Sealed, own: X25519PrivateKey, purpose: Purpose) -> bytes:
    """The content again. Raises BadSeal."""
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(sealed.public_key))
        key = _derived(shared, own.public_key().public_bytes_raw(), sealed.public_key, purpose)
        return AESGCM(key).decrypt(_NONCE, sealed.content, purpose.info)
    except (InvalidTag, ValueError) as error:
        raise BadSeal("what the server sent was sealed for another key or token, or was changed") from error


def _derived(shared: bytes, joiner: bytes, server: bytes, purpose: Purpose) -> bytes:
    kdf = HKDF(hashes.SHA256(), KEY_SIZE, salt=joiner + server, info=purpose.info)
    return kdf.derive(shared + purpose.secret.encode())
