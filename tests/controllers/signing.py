"""A certificate authority for tests: signs any request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tarmac.controllers.context import Sign


def signer() -> Sign:
    """A `sign` function with a key of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])

    def sign(pem: str, usages: list[str], expiration: int | None) -> str:
        request = x509.load_pem_x509_csr(pem.encode())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(issuer)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(seconds=expiration or 3600))
            .sign(key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    return sign
