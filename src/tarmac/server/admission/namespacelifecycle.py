"""NamespaceLifecycle: rejects creates in namespaces that are missing or being deleted."""

from __future__ import annotations

from tarmac.api.egress.names import NAMESPACE as EXTERNAL_SERVICES
from tarmac.api.resource import Resource
from tarmac.api.status import NAMESPACE_TERMINATING, Forbidden, not_found
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import RefusalCause, refuse
from tarmac.server.reader import Reader

BUCKET = "core/namespaces"
IMMORTAL = frozenset({"default", "kube-system", "kube-public", EXTERNAL_SERVICES})


class NamespaceLifecycle(AdmissionPlugin):
    """Checks the namespace of every create, and protects the system's namespaces from deletion."""

    name = "NamespaceLifecycle"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if resource.bucket == BUCKET:
            return operation == "DELETE"
        return resource.namespaced and operation == "CREATE" and resource.plural != "localsubjectaccessreviews"

    def admit(self, attributes: Attributes) -> None:
        if attributes.operation == "DELETE":
            if attributes.name in IMMORTAL:
                raise refuse(attributes, "this namespace may not be deleted")
            return
        namespace = self._reader.get(BUCKET, attributes.namespace)
        if namespace is None:
            raise not_found("", "namespaces", attributes.namespace)
        # Accepted writes count, not only visible ones (`Reader`): where one server writes, no create slips in behind a
        # delete.
        if (namespace.get("status") or {}).get("phase") == "Terminating":
            raise _terminating(attributes)


def _terminating(attributes: Attributes) -> Forbidden:
    namespace = attributes.namespace
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = RefusalCause(NAMESPACE_TERMINATING, f"namespace {namespace} is being terminated", "metadata.namespace")
    return refuse(attributes, why, [cause])
