"""CreationRights: creating an object by apply or replace requires the right to create it, too.

The request was authorized as a patch or update; only now is it known to create the object.
"""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer, refusal


class CreationRights(AdmissionPlugin):
    """Asks the authorizer for the verb `create`."""

    name = "CreationRights"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return operation == "CREATE" and subresource == ""

    def validate(self, attributes: Attributes) -> None:
        if attributes.verb == "create":
            return
        resource, place = attributes.resource, (attributes.namespace, attributes.name)
        info = RequestInfo("create", "", True, resource.group, resource.version, resource.plural, "", *place)
        why = self._authorizer.refuses(attributes.user, info)
        if why is not None:
            raise refusal(attributes.user, info, why)
