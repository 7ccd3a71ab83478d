"""What a certificate request asks for, and whether that is what its signer gives. Pure functions over the request.

Each signer's rules are Kubernetes': a kubelet's client certificate is for `system:node:<name>` in `system:nodes` and
carries no other names; its serving certificate carries the names and addresses it will be reached by, and nothing
else.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID

from tarmac.api.schema import JsonObject

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"

NODE_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"
_OPTIONAL = {"digital signature", "key encipherment"}


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """The readable content of one CertificateSigningRequest."""

    pem: str
    common_name: str
    organisations: tuple[str, ...]
    dns_names: frozenset[str]
    addresses: frozenset[str]
    emails: bool
    uris: bool
    usages: frozenset[str]
    signer: str
    user: str

    @property
    def node(self) -> str:
        """The node the certificate is for, if it is for one."""
        return self.common_name.removeprefix(NODE_PREFIX) if self.common_name.startswith(NODE_PREFIX) else ""


def parse(document: JsonObject) -> CertificateRequest:
    """Read a CertificateSigningRequest object. Raises ValueError."""
    spec = document["spec"]
    try:
        pem = base64.b64decode(spec["request"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the request is not base64: {error}") from error
    request = x509.load_pem_x509_csr(pem)
    if not request.is_signature_valid:
        raise ValueError("the request is not signed with its own key")
    names = _alternative_names(request)
    return CertificateRequest(
        pem=pem.decode(),
        common_name="".join(_subject(request, NameOID.COMMON_NAME)[:1]),
        organisations=tuple(_subject(request, NameOID.ORGANIZATION_NAME)),
        dns_names=frozenset(names.get_values_for_type(x509.DNSName)),
        addresses=frozenset(str(each) for each in names.get_values_for_type(x509.IPAddress)),
        emails=bool(names.get_values_for_type(x509.RFC822Name)),
        uris=bool(names.get_values_for_type(x509.UniformResourceIdentifier)),
        usages=frozenset(spec.get("usages") or ()),
        signer=spec.get("signerName", ""),
        user=spec.get("username", ""),
    )


def objection(request: CertificateRequest) -> str | None:
    """Why the request is not one its signer gives certificates for; None when it is."""
    if request.signer == KUBELET_CLIENT:
        return _kubelet_client(request)
    if request.signer == KUBELET_SERVING:
        return _kubelet_serving(request)
    return _client(request)


def _kubelet_client(request: CertificateRequest) -> str | None:
    if request.organisations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    for present, what in (
        (request.dns_names, "DNS"),
        (request.emails, "Email"),
        (request.addresses, "IP"),
        (request.uris, "URI"),
    ):
        if present:
            return f"{what} subjectAltNames are not allowed"
    if not request.node:
        return "subject common name does not begin with system:node:"
    return _usages(request, "client auth")


def _kubelet_serving(request: CertificateRequest) -> str | None:
    if request.organisations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    if not request.dns_names and not request.addresses:
        return "DNS or IP subjectAltName is required"
    if request.emails:
        return "Email subjectAltNames are not allowed"
    if request.uris:
        return "URI subjectAltNames are not allowed"
    if not request.node:
        return "subject common name does not begin with system:node:"
    return _usages(request, "server auth")


def _usages(request: CertificateRequest, purpose: str) -> str | None:
    full = frozenset(("key encipherment", "digital signature", purpose))
    if request.usages in (full, full - {"key encipherment"}):
        return None
    return f"usages did not match {sorted(full)}"


def _client(request: CertificateRequest) -> str | None:
    for usage in sorted(request.usages - _OPTIONAL):
        if usage != "client auth":
            return f"invalid usage for client certificate: {usage}"
    return None if "client auth" in request.usages else "missing required usage for client certificate: client auth"


def _subject(request: x509.CertificateSigningRequest, kind: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in request.subject.get_attributes_for_oid(kind)]


def _alternative_names(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])
