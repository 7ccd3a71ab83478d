"""CA certificates, and the hash that identifies one of them: that of its public key.

A joining host knows only the hash. It accepts a certificate with that hash from any source, and trusts that one alone.
"""

from __future__ import annotations

from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import serialization


def key_hash(pem: bytes) -> str:
    """Return the lower-case hex SHA-256 of the SubjectPublicKeyInfo of the first certificate. Raises ValueError."""
    return _hash(x509.load_pem_x509_certificate(pem))


def key_hashes(pem: bytes) -> list[str]:
    """Return the hash of every certificate in a PEM text. Raises ValueError."""
    return [_hash(each) for each in x509.load_pem_x509_certificates(pem)]


def pinned(pem: bytes, wanted: str) -> str | None:
    """Return the certificate (PEM) with the hash, or None. Raises ValueError."""
    for certificate in x509.load_pem_x509_certificates(pem):
        if _hash(certificate) == wanted:
            return certificate.public_bytes(serialization.Encoding.PEM).decode()
    return None


def _hash(certificate: x509.Certificate) -> str:
    public = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sha256(public).hexdigest()
