"""Signatures of JSON Web Tokens: supported algorithms, their keys, and verification.

Only asymmetric algorithms are supported. `none` and shared-secret algorithms are not, so no token can make the server
use a public key as a shared secret.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_HASHES: Final[dict[str, type[hashes.HashAlgorithm]]] = {
    "256": hashes.SHA256,
    "384": hashes.SHA384,
    "512": hashes.SHA512,
}
_CURVES: Final[dict[str, type[ec.EllipticCurve]]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}
ALGORITHMS: Final = tuple(f"{family}{size}" for family in ("RS", "ES", "PS") for size in _HASHES)


def check_signature(key: PublicKey, algorithm: str, data: bytes, signature: bytes) -> None:
    """Verify that the private key signed `data`.

    Raises InvalidSignature, also if the algorithm does not fit the key.
    """
    if algorithm not in ALGORITHMS:
        raise InvalidSignature
    digest = _HASHES[algorithm[2:]]()
    if isinstance(key, rsa.RSAPublicKey):
        if algorithm.startswith("ES"):
            raise InvalidSignature
        key.verify(signature, data, _padding(algorithm, digest), digest)
        return
    curve = _CURVES.get(algorithm)
    if curve is None or not isinstance(key.curve, curve):
        raise InvalidSignature
    size = coordinate_size(key)
    # RFC 7518, section 3.4: both halves have the full length. Other lengths would give one signature many spellings.
    if len(signature) != 2 * size:
        raise InvalidSignature
    r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
    key.verify(encode_dss_signature(r, s), data, ec.ECDSA(digest))


def coordinate_size(key: ec.EllipticCurvePublicKey) -> int:
    """Return the size in bytes of a coordinate of the key's curve, which is that of each half of a signature."""
    return (key.curve.key_size + 7) // 8


def _padding(algorithm: str, digest: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
