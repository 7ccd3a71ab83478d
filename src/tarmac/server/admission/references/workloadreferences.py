"""WorkloadReferences: the author of a Workload must be allowed to use the objects it refers to.

Only references that an update adds are checked, so that revoking a permission does not lock owners out of their running
workloads.
"""

from __future__ import annotations

from tarmac.api.compute.validation.references import ReferencedObject, references
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User

_BUCKET = "compute.datumapis.com/workloads"


class WorkloadReferences(AdmissionPlugin):
    """Rejects a Workload if its author may not use one of its networks or read its ConfigMaps and Secrets."""

    name = "WorkloadReferences"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        """Return True for Workloads as users write them. Objects derived by controllers were admitted with them."""
        return resource.bucket == _BUCKET and subresource == "" and operation in {"CREATE", "UPDATE"}

    def validate(self, attributes: Attributes) -> None:
        """Check every added reference and report all errors at once."""
        known = {reference[1:] for reference in references(attributes.old or {})}
        with FieldErrors() as errors:
            for reference in references(attributes.obj or {}):
                if reference[1:] not in known and not self._allows(attributes.user, reference):
                    errors.forbidden(reference.path, reference.refusal)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _allows(self, user: User, reference: ReferencedObject) -> bool:
        _, verb, group, resource, namespace, name = reference
        info = RequestInfo(verb, "", True, group, "*", resource, "", namespace, name)
        return self._authorizer.refuses(user, info) is None
