"""Plugins for certificates: requester, approval, signing and subjects of requests, and the list of revoked ones."""

from __future__ import annotations

import base64

from tarmac.api.identities import NAMESPACE, controller_user
from tarmac.api.nodetokens import REVOKED_MAP
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import MASTERS, Authorizer
from tarmac.server.security.tokens.bootstraptokens import PREFIX as BOOTSTRAP_PREFIX
from tarmac.server.security.users import User, user_info

_NODE_CONTROLLER = controller_user("node")
_BUCKET = "certificates.k8s.io/certificatesigningrequests"
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_NODE_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_SIGNED_HERE = frozenset((_CLIENT_SIGNER, _NODE_SIGNER, "kubernetes.io/kubelet-serving"))


class CertificateRequester(AdmissionPlugin):
    """Sets the requester and the times of conditions, which a client must not set."""

    name = "CertificateRequester"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        request = attributes.obj
        assert request is not None
        if attributes.operation == "CREATE":
            _sign_as(request.setdefault("spec", {}), attributes.user)
        elif attributes.subresource in ("approval", "status"):
            self._stamp(request, attributes.old or {})

    def _stamp(self, request: JsonObject, old: JsonObject) -> None:
        now = rfc3339(self._clock.now())
        before = {condition.get("type"): condition for condition in _conditions(old)}
        for condition in _conditions(request):
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = now
            if not condition.get("lastTransitionTime"):
                was = before.get(condition.get("type")) or {}
                same = was.get("status") == condition.get("status")
                condition["lastTransitionTime"] = (was.get("lastTransitionTime") if same else None) or now


def _conditions(request: JsonObject) -> list[JsonObject]:
    return (request.get("status") or {}).get("conditions") or []


def _sign_as(spec: JsonObject, user: User) -> None:
    # Always from the connection: the approving controller trusts these fields, and clients can send any.
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec.update(user_info(user))


class _SignerPermission(AdmissionPlugin):
    """Requires a verb on the virtual resource `signers`."""

    subresource = ""
    verb = ""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == self.subresource and operation == "UPDATE"

    def check(self, attributes: Attributes) -> None:
        """Reject a user without the right for this signer or for its whole domain."""
        # From the stored request: a client with rights for one signer must not name it for the request of another.
        signer: str = ((attributes.old or {}).get("spec") or {}).get("signerName", "")
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            info = RequestInfo(self.verb, "", True, "certificates.k8s.io", "*", "signers", "", "", name)
            if self._authorizer.refuses(attributes.user, info) is None:
                return
        raise refuse(attributes, f'user not permitted to {self.verb} requests with signerName "{signer}"')


class CertificateApproval(_SignerPermission):
    """Requires `approve` on the signer for approval."""

    name = "CertificateApproval"
    subresource = "approval"
    verb = "approve"

    def validate(self, attributes: Attributes) -> None:
        self.check(attributes)


class CertificateSigning(_SignerPermission):
    """Requires `sign` on the signer to write the certificate or conditions."""

    name = "CertificateSigning"
    subresource = "status"
    verb = "sign"

    def validate(self, attributes: Attributes) -> None:
        new, old = (attributes.obj or {}).get("status") or {}, (attributes.old or {}).get("status") or {}
        if any(new.get(field) != old.get(field) for field in ("certificate", "conditions")):
            self.check(attributes)


class CertificateSubjectRestriction(AdmissionPlugin):
    """Requires one user name per request, rejects `system:masters`, and limits bootstrap tokens to the node signer.

    Subjects of requests to external signers are not checked.
    """

    name = "CertificateSubjectRestriction"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _BUCKET and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        spec = (attributes.obj or {}).get("spec") or {}
        signer = spec.get("signerName")
        # Before the check of signers: external signers may trust any request of an authenticated user.
        if attributes.user.name.startswith(BOOTSTRAP_PREFIX) and signer != _NODE_SIGNER:
            raise refuse(attributes, f"a bootstrap token may ask for certificates of {_NODE_SIGNER} only")
        if signer not in _SIGNED_HERE:
            return
        # loaded on first use: most servers never see a signing request
        from tarmac.http.subjects import alternative_names, load_request, subject_of

        try:
            request = load_request(base64.b64decode(spec["request"]))
            subject, _ = subject_of(request), alternative_names(request)
        except ValueError as error:
            raise refuse(attributes, f"{signer} signs no such request: {error}") from error
        if signer == _CLIENT_SIGNER and "system:masters" in subject.organisations:
            raise refuse(attributes, f"use of {_CLIENT_SIGNER} signer with system:masters group is not allowed")


class RevocationRestriction(AdmissionPlugin):
    """Only administrators and the node controller change the list of revoked certificates, regardless of roles.

    A right to write ConfigMaps in `kube-system` does not suffice: removing an entry readmits a removed node.
    """

    name = "RevocationRestriction"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "core/configmaps"

    def admit(self, attributes: Attributes) -> None:
        name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
        if name != REVOKED_MAP or attributes.namespace != NAMESPACE:
            return
        if MASTERS not in attributes.user.groups and attributes.user.name != _NODE_CONTROLLER:
            raise refuse(attributes, "only system:masters and the node controller may change which certificates hold")
