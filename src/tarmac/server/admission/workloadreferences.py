"""WorkloadReferences: who writes a Workload must be allowed to use what it refers to.

References that an update does not add are not asked about again, so that taking a permission away does not lock owners
out of their running workloads.
"""

from __future__ import annotations

from tarmac.api.compute.validation.references import ReferencedObject, references
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User

_BUCKET = "compute.datumapis.com/workloads"


class WorkloadReferences(Plugin):
    """Refuses a Workload whose author may not use one of its networks, or may not read its ConfigMaps and Secrets."""

    name = "WorkloadReferences"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        """Workloads as users write them; what controllers make of them was admitted with them."""
        return resource.bucket == _BUCKET and subresource == "" and operation in {"CREATE", "UPDATE"}

    def validate(self, attributes: Attributes) -> None:
        """Every reference that is new to the object, all refusals at once."""
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
