"""JSON Web Tokens for service accounts and the registry: signed with ES256 or RS256, in compact form."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tarmac.server.security.tokens.signatures import check_signature, coordinate_size

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class InvalidToken(Exception):
    """An invalid token: malformed, signed by an unknown key, modified, expired or revoked."""

    def __init__(self, why: str = "invalid bearer token") -> None:
        super().__init__(why)


class Unverified(NamedTuple):
    """The content of a token before its signature is verified. Do not trust it."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def parse(token: str) -> Unverified:
    """Parse a token in compact form. Raises InvalidToken."""
    try:
        header, payload, signature = token.split(".")
        signed = f"{header}.{payload}".encode()
        parts = _decode(unbase64url(header)), _decode(unbase64url(payload))
        return Unverified(*parts, signed, unbase64url(signature))
    # Clients reach this line unauthenticated: deeply nested JSON raises RecursionError, invalid UTF-8 a ValueError.
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidToken from error


def thumbprint(public: bytes) -> str:
    """Return a key's id as Kubernetes computes it."""
    return base64url(hashlib.sha256(public).digest())


class SigningKey:
    """A private key that signs tokens and verifies its own. `name` computes the key's id from its public half (DER)."""

    def __init__(self, pem: bytes, name: Callable[[bytes], str] = thumbprint) -> None:
        key = serialization.load_pem_private_key(pem, None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            self.algorithm = "ES256"
        elif isinstance(key, rsa.RSAPrivateKey):
            self.algorithm = "RS256"
        else:
            raise TypeError("the service-account key must be an RSA key or an elliptic-curve key on P-256")
        self._key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = key
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = name(public)

    def sign(self, claims: dict[str, Any]) -> str:
        """Return the token for these claims."""
        header = base64url(_encode({"alg": self.algorithm, "kid": self.id}))
        signed = f"{header}.{base64url(_encode(claims))}"
        return f"{signed}.{base64url(self.signature(signed.encode()))}"

    def signature(self, data: bytes) -> bytes:
        """Return the signature in the format of tokens."""
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        size = coordinate_size(self._key.public_key())
        # Libraries return DER; JWS wants both numbers side by side at full length (RFC 7518, section 3.4).
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that this key signed. Raises InvalidToken. The caller checks the expiry."""
        return self.verified(parse(token))

    def verified(self, found: Unverified) -> dict[str, Any]:
        """Return the claims of a parsed token. Raises InvalidToken."""
        # The key decides, not the token (RFC 8725, section 3.1): `none`, or HS256 with the public key as its secret,
        # would let any client sign.
        if found.header.get("alg") != self.algorithm:
            raise InvalidToken
        try:
            check_signature(self._key.public_key(), self.algorithm, found.signed, found.signature)
        except InvalidSignature as error:
            raise InvalidToken from error
        return found.claims

    def public_jwk(self) -> dict[str, str]:
        """Return the public half as a JSON Web Key."""
        common = {"use": "sig", "alg": self.algorithm, "kid": self.id}
        if isinstance(self._key, rsa.RSAPrivateKey):
            numbers = self._key.public_key().public_numbers()
            return {**common, "kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        size, point = coordinate_size(self._key.public_key()), self._key.public_key().public_numbers()
        x, y = (base64url(value.to_bytes(size, "big")) for value in (point.x, point.y))
        return {**common, "kty": "EC", "crv": "P-256", "x": x, "y": y}


def base64url(data: bytes) -> str:
    """Encode without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unbase64url(text: str) -> bytes:
    """Decode with or without padding. Raises ValueError."""
    # Strict: otherwise characters outside the alphabet would be skipped, and one token would have many spellings.
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


def _number(value: int) -> str:
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))
