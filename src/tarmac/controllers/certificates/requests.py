"""Parses certificate requests and validates them against their signer. Pure functions.

The rules are those of Kubernetes: a kubelet's client certificate is for `system:node:<name>` in `system:nodes` and has
no alternative names; its serving certificate has the names and addresses that clients use, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from tarmac.api.schema import JsonObject
from tarmac.http.subjects import (
    AlternativeNames,
    CertificateSubject,
    alternative_names,
    load_request,
    public_key_digest,
    subject_of,
)

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"

NODE_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"
_OPTIONAL = {"digital signature", "key encipherment"}


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """The parsed content of one CertificateSigningRequest."""

    pem: str
    key: str  # SHA-256 of the public key, in hex digits
    subject: CertificateSubject
    names: AlternativeNames
    usages: frozenset[str]
    signer: str
    user: str

    @property
    def node(self) -> str:
        """The node that the certificate is for, if any."""
        name = self.subject.common_name
        return name.removeprefix(NODE_PREFIX) if name.startswith(NODE_PREFIX) else ""

    @property
    def is_own(self) -> bool:
        """True if the user requests a certificate for itself."""
        return self.user == self.subject.common_name


def parse(document: JsonObject) -> CertificateRequest:
    """Parse a CertificateSigningRequest object. Raises ValueError."""
    spec = document["spec"]
    try:
        pem = base64.b64decode(spec["request"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"the request is not base64: {error}") from error
    request = load_request(pem)
    return CertificateRequest(
        pem=pem.decode(),
        key=public_key_digest(request),
        subject=subject_of(request),
        names=alternative_names(request),
        usages=frozenset(spec.get("usages") or ()),
        signer=spec.get("signerName", ""),
        user=spec.get("username", ""),
    )


def objection(request: CertificateRequest) -> str | None:
    """Return the reason why the signer must reject the request, or None."""
    if request.signer == KUBELET_CLIENT:
        return _kubelet_client(request)
    if request.signer == KUBELET_SERVING:
        return _kubelet_serving(request)
    return _client(request)


def _kubelet_client(request: CertificateRequest) -> str | None:
    names = request.names
    if request.subject.organisations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    # With alternative names, a client certificate could also be used to serve under them.
    for present, what in ((names.dns, "DNS"), (names.emails, "Email"), (names.addresses, "IP"), (names.uris, "URI")):
        if present:
            return f"{what} subjectAltNames are not allowed"
    if not request.node:
        return "subject common name does not begin with system:node:"
    return _usages(request, "client auth")


def _kubelet_serving(request: CertificateRequest) -> str | None:
    if request.subject.organisations != (NODE_GROUP,):
        return "subject organization is not system:nodes"
    if not request.names.hosts:
        return "DNS or IP subjectAltName is required"
    if request.names.emails:
        return "Email subjectAltNames are not allowed"
    if request.names.uris:
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
