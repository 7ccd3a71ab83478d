"""NetworkUse: whoever attaches instances to a network must be allowed to `use` it.

The verb `use` on `networks` is asked for in the namespace the network is in. Networks that an update does not add are
not asked about again, so that taking the permission away does not lock owners out of their running workloads.
"""

from __future__ import annotations

from tarmac.api.compute.validation.interfaces import NetworkUse as Use
from tarmac.api.compute.validation.interfaces import networks_used
from tarmac.api.networking.names import GROUP
from tarmac.api.resource import Resource
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User


class NetworkUse(Plugin):
    """Refuses a Workload whose author may not use one of its networks."""

    name = "NetworkUse"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        """Workloads as users write them; what controllers make of them was admitted with them."""
        return (
            resource.bucket == "compute.datumapis.com/workloads"
            and subresource == ""
            and operation in {"CREATE", "UPDATE"}
        )

    def validate(self, attributes: Attributes) -> None:
        """Every network that is new to the object, all refusals at once."""
        known = {(use.namespace, use.name) for use in networks_used(attributes.old or {})}
        errors = FieldErrors()
        for use in networks_used(attributes.obj or {}):
            if (use.namespace, use.name) not in known and not self._may_use(attributes.user, use):
                errors.forbidden(use.path, "permission to use the network was denied")
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _may_use(self, user: User, use: Use) -> bool:
        info = RequestInfo("use", "", True, GROUP, "*", "networks", "", use.namespace, use.name)
        return self._authorizer.refuses(user, info) is None
