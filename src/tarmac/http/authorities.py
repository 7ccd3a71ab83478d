"""Certificates of authorities, and the hash by which one of them is known: that of its public key.

A machine that joins knows the hash and nothing else. It takes the certificate that has it from wherever it is shown,
and trusts that one alone.
"""

from __future__ import annotations

from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import serialization


def key_hash(pem: bytes) -> str:
    """The lower-case hex SHA-256 of the SubjectPublicKeyInfo of the first certificate. Raises ValueError."""
    return _hash(x509.load_pem_x509_certificate(pem))


def key_hashes(pem: bytes) -> list[str]:
    """Of every certificate in a text. Raises ValueError."""
    return [_hash(each) for each in x509.load_pem_x509_certificates(pem)]


def pinned(pem: bytes, wanted: str) -> str | None:
    """The one certificate (PEM) that has the hash; None when none has. Raises ValueError."""
    for certificate in x509.load_pem_x509_certificates(pem):
        if _hash(certificate) == wanted:
            return certificate.public_bytes(serialization.Encoding.PEM).decode()
    return None


def _hash(certificate: x509.Certificate) -> str:
    public = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sha256(public).hexdigest()
