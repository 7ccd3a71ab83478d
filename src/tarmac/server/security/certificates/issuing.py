"""Creates X.509 certificates: an authority, and the certificates it signs.

All keys are ECDSA P-256. Certificates carry the extensions required by strict verifiers (Python 3.13 and later): key
usage and basic constraints on the authority, subject and authority key identifiers on all certificates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from tarmac.http.subjects import CertificateSubject, alternative_names, load_request, subject_of

BACKDATE = timedelta(minutes=5)  # for clients with a slow clock
AUTHORITY_LIFETIME = timedelta(days=3652)
LEAF_LIFETIME = timedelta(days=365)

# certificates.k8s.io usages: a key usage bit (the name of KeyUsage's argument), or an extended usage
_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
}
_EXTENDED_USAGES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode as PKCS #8, unencrypted: the file's mode protects it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    """Generate a P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def load_certificate(pem: bytes) -> x509.Certificate:
    """Load the first certificate of a PEM text."""
    return x509.load_pem_x509_certificate(pem)


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return True if the authority signed the certificate directly."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belongs_to(key: bytes, certificate: x509.Certificate) -> bool:
    """Return True if a private key (PEM) belongs to the certificate."""
    return serialization.load_pem_private_key(key, None).public_key() == certificate.public_key()


def subject_names(certificate: x509.Certificate) -> set[str]:
    """Return the DNS names and addresses of a certificate."""
    return set(alternative_names(certificate).hosts)


class Authority:
    """A certificate authority with its private key."""

    def __init__(self, pair: KeyPair) -> None:
        self.pem = pair.certificate
        self._certificate = load_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is not an elliptic-curve key")
        self._key = key

    @staticmethod
    def create(name: str, now: float) -> KeyPair:
        """Create a self-signed authority."""
        key = new_key()
        subject = CertificateSubject(name).name
        builder = _dated(x509.CertificateBuilder().issuer_name(subject), now, AUTHORITY_LIFETIME)
        certificate = _as_authority(builder, subject, key.public_key()).sign(key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def vouch_for(self, other: bytes, now: float) -> bytes:
        """Cross-sign the certificate (PEM) of a different authority, for peers that trust only this one."""
        known = load_certificate(other)
        lifetime = self._certificate.not_valid_after_utc - datetime.fromtimestamp(now, UTC)
        builder = _dated(x509.CertificateBuilder().issuer_name(self._certificate.subject), now, lifetime)
        builder = _as_authority(builder, known.subject, known.public_key())
        signed = builder.add_extension(self._key_identifier(), critical=False).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, common_name: str, names: Iterable[str], now: float) -> KeyPair:
        """Issue a serving certificate for DNS names and IP addresses."""
        return self._issue(common_name, (), ("digital signature", "server auth"), _alternative_names(names), now)

    def issue_client(self, user: str, groups: Sequence[str], now: float) -> KeyPair:
        """Issue a client certificate: the common name is the user, the organisations are the groups."""
        return self._issue(user, groups, ("digital signature", "client auth"), None, now)

    def issue_member(self, name: str, names: Sequence[str], now: float) -> KeyPair:
        """Issue a certificate to serve and to dial with, as long as the authority's: its host has that key anyway."""
        usages = ("digital signature", "server auth", "client auth")
        alternatives = _alternative_names(names) if names else None
        return self._issue(name, (), usages, alternatives, now, AUTHORITY_LIFETIME)

    def sign_request(self, request_pem: bytes, usages: Sequence[str], lifetime: float, now: float) -> bytes:
        """Return a certificate (PEM) for a PKCS #10 request, with its subject and names.

        Raises ValueError if it is invalid.
        """
        request = load_request(request_pem)
        subject, names = subject_of(request).name, alternative_names(request).extension
        return self._sign(subject, request.public_key(), usages, names, now, timedelta(seconds=lifetime))

    def _issue(
        self,
        name: str,
        organisations: Sequence[str],
        usages: Sequence[str],
        names: x509.SubjectAlternativeName | None,
        now: float,
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> KeyPair:
        key = new_key()
        subject = CertificateSubject(name, tuple(organisations)).name
        certificate = self._sign(subject, key.public_key(), usages, names, now, lifetime)
        return KeyPair(certificate, private_pem(key))

    def _sign(
        self,
        subject: x509.Name,
        public_key: CertificatePublicKeyTypes,
        usages: Sequence[str],
        names: x509.SubjectAlternativeName | None,
        now: float,
        lifetime: timedelta,
    ) -> bytes:
        unknown = [usage for usage in usages if usage not in _KEY_USAGES and usage not in _EXTENDED_USAGES]
        if unknown:
            raise ValueError(f"unrecognized usages: {unknown}")
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._certificate.subject)
        builder = (
            _dated(builder, now, lifetime)
            .public_key(public_key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(self._key_identifier(), critical=False)
        )
        bits = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
        if bits:  # OpenSSL rejects a certificate with an empty extension
            builder = builder.add_extension(_key_usage(bits), critical=True)
        extended = dict.fromkeys(_EXTENDED_USAGES[u] for u in usages if u in _EXTENDED_USAGES)
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        own = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _dated(builder: x509.CertificateBuilder, now: float, lifetime: timedelta) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(now, UTC)
    builder = builder.not_valid_before(start - BACKDATE).not_valid_after(start + lifetime)
    return builder.serial_number(x509.random_serial_number())


def _as_authority(
    builder: x509.CertificateBuilder, subject: x509.Name, key: CertificatePublicKeyTypes
) -> x509.CertificateBuilder:
    return (
        builder.subject_name(subject)
        .public_key(key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage({"digital_signature", "key_cert_sign", "crl_sign"}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(wanted: set[str]) -> x509.KeyUsage:
    bits = {*_KEY_USAGES.values(), "encipher_only", "decipher_only"}
    return x509.KeyUsage(**{bit: bit in wanted for bit in bits})


def _alternative_names(names: Iterable[str]) -> x509.SubjectAlternativeName:
    general: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            general.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            general.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(general)
