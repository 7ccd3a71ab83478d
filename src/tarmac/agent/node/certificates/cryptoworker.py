"""The program behind `craft`: one order on standard input, one answer on standard output."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from ipaddress import ip_address

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tarmac.agent.node.certificates.cryptoprocess import CryptoRequest, CryptoResult
from tarmac.http.subjects import CertificateSubject, alternative_names, subject_of


def request(order: CryptoRequest) -> CryptoResult:
    """Create a signing request for the key in `pem`, or for a new one. Raises ValueError."""
    key = _key(order.pem) if order.pem else ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(order))
    if names := _names(order):
        builder = builder.add_extension(names, critical=False)
    signed = builder.sign(key, hashes.SHA256())
    return CryptoResult(key=_key_pem(key), request=signed.public_bytes(serialization.Encoding.PEM).decode())


def _key(pem: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "an earlier order made it"
    return key


def self_signed(order: CryptoRequest) -> CryptoResult:
    """Create a key and a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(order))
        .issuer_name(_subject(order))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(order.starts, UTC))
        .not_valid_after(datetime.fromtimestamp(order.ends, UTC))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    if names := _names(order):
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return CryptoResult(key=_key_pem(key), certificate=pem, starts=order.starts, ends=order.ends)


def inspect(order: CryptoRequest) -> CryptoResult:
    """Return subject, issuer and validity of a certificate. Raises ValueError."""
    certificate = x509.load_pem_x509_certificates(order.pem.encode())[0]
    return CryptoResult(
        common_name=subject_of(certificate).common_name,
        issuer=_issuer(certificate),
        starts=certificate.not_valid_before_utc.timestamp(),
        ends=certificate.not_valid_after_utc.timestamp(),
        names=tuple(sorted(alternative_names(certificate).hosts)),
    )


def _issuer(certificate: x509.Certificate) -> str:
    """Return the issuer's common name; empty if it has none, or several, and so cannot be identified."""
    found = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _subject(order: CryptoRequest) -> x509.Name:
    return CertificateSubject(order.common_name, (order.organisation,) if order.organisation else ()).name


def _names(order: CryptoRequest) -> x509.SubjectAlternativeName | None:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in order.names]
    names += [x509.IPAddress(ip_address(address)) for address in order.addresses]
    return x509.SubjectAlternativeName(names) if names else None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def main() -> None:
    """Execute one order."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=CryptoRequest)
    crafts = {"request": request, "self-signed": self_signed, "inspect": inspect}
    try:
        done = crafts[order.kind](order)
    except ValueError as error:
        done = CryptoResult(error=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(done))


if __name__ == "__main__":
    main()
