"""Parses the subject and alternative names of a certificate or a signing request: the only parser of both.

Approval, signing, authentication and admission all use it, so that no two parts read different names from one
certificate. Exactly one common name, printable text, no duplicate extension, and no kind of alternative name that is
never checked: everything else raises ValueError with a text for the requester. A signed certificate is written anew
from the parsed values, so that odd encodings and unread attributes of a request never get into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

# PKCS #9 and Microsoft's older place for the extensions of a request. Only one is read, so only one may be there.
_EXTENSION_REQUESTS = frozenset(("1.2.840.113549.1.9.14", "1.3.6.1.4.1.311.2.1.14"))
_CHECKED = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)


@dataclass(frozen=True, slots=True)
class CertificateSubject:
    """A certificate's subject: its user and groups."""

    common_name: str
    organisations: tuple[str, ...] = ()

    @property
    def name(self) -> x509.Name:
        """The subject as it is written into a certificate."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in self.organisations]
        return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, self.common_name)])


@dataclass(frozen=True, slots=True)
class AlternativeNames:
    """Subject alternative names. Addresses are normalised; an IPv4-mapped IPv6 address is the IPv4 one."""

    dns: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    emails: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()

    @property
    def hosts(self) -> frozenset[str]:
        """Names and addresses together."""
        return self.dns | self.addresses

    @property
    def extension(self) -> x509.SubjectAlternativeName | None:
        """The extension as it is written into a certificate; None when empty."""
        names: list[x509.GeneralName] = [x509.DNSName(each) for each in sorted(self.dns)]
        names += [x509.IPAddress(ip_address(each)) for each in sorted(self.addresses)]
        names += [x509.RFC822Name(each) for each in sorted(self.emails)]
        names += [x509.UniformResourceIdentifier(each) for each in sorted(self.uris)]
        return x509.SubjectAlternativeName(names) if names else None


def certificate_subject(der: bytes) -> tuple[CertificateSubject, x509.Certificate]:
    """Parse a certificate (DER); returns its subject and the certificate. Raises ValueError."""
    certificate = x509.load_der_x509_certificate(der)
    return subject_of(certificate), certificate


def load_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Parse a PKCS #10 request that is signed with its own key and has no duplicates. Raises ValueError."""
    try:
        request = x509.load_pem_x509_csr(pem)
        signed = request.is_signature_valid
    except (x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise ValueError(f"the request cannot be read: {error}") from error
    if not signed:
        raise ValueError("the request is not signed with its own key")
    wishes = [each for each in request.attributes if each.oid.dotted_string in _EXTENSION_REQUESTS]
    if len(wishes) > 1:
        raise ValueError(f"the request lists its extensions {len(wishes)} times, once is allowed")
    return request


def public_key_digest(request: x509.CertificateSigningRequest) -> str:
    """The SHA-256 of the key that a request is for, in hex digits."""
    encoded = request.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(encoded).hexdigest()


def subject_of(holder: x509.Certificate | x509.CertificateSigningRequest) -> CertificateSubject:
    """Return the subject of a certificate or of a request. Raises ValueError."""
    names = _texts(holder.subject, NameOID.COMMON_NAME, "common name")
    if len(names) != 1:
        raise ValueError(f"the subject has {len(names)} common names, exactly one is allowed")
    return CertificateSubject(names[0], tuple(_texts(holder.subject, NameOID.ORGANIZATION_NAME, "organization")))


def _texts(name: x509.Name, kind: x509.ObjectIdentifier, what: str) -> list[str]:
    """Return the values of an attribute; several in one relative name count as several."""
    found: list[str] = []
    for attribute in name.get_attributes_for_oid(kind):
        value = attribute.value
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ValueError(f"the subject's {what} is empty or has characters that cannot be printed")
        found.append(value)
    return found


def alternative_names(holder: x509.Certificate | x509.CertificateSigningRequest) -> AlternativeNames:
    """Return the alternative names of a certificate or of a request. Raises ValueError."""
    try:
        names = holder.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return AlternativeNames()
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(f"the extensions are not allowed: {error}") from error
    odd = [type(each).__name__ for each in names if not isinstance(each, _CHECKED)]
    if odd:
        raise ValueError(f"subjectAltNames of the kind {odd[0]} are not allowed")
    addresses = names.get_values_for_type(x509.IPAddress)
    networks = [each for each in addresses if not isinstance(each, IPv4Address | IPv6Address)]
    if networks:
        raise ValueError(f"the subjectAltName {networks[0]} is a network, not an address")
    return AlternativeNames(
        frozenset(names.get_values_for_type(x509.DNSName)),
        frozenset(_plain(each) for each in addresses if isinstance(each, IPv4Address | IPv6Address)),
        frozenset(names.get_values_for_type(x509.RFC822Name)),
        frozenset(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def _plain(address: IPv4Address | IPv6Address) -> str:
    return str((address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address)
