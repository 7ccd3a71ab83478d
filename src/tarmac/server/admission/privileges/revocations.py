"""RevocationRestriction: only administrators and the node controller change the list of revoked certificates.

A right to write ConfigMaps in `kube-system` does not suffice: removing an entry readmits a removed node.
"""

from __future__ import annotations

from tarmac.api.identities import NAMESPACE, controller_user
from tarmac.api.nodetokens import REVOKED_MAP
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.security.authorization.authorize import MASTERS

_NODE_CONTROLLER = controller_user("node")


class RevocationRestriction(AdmissionPlugin):
    """Rejects all other users, regardless of their roles."""

    name = "RevocationRestriction"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "core/configmaps"

    def admit(self, attributes: Attributes) -> None:
        name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
        if name != REVOKED_MAP or attributes.namespace != NAMESPACE:
            return
        if MASTERS not in attributes.user.groups and attributes.user.name != _NODE_CONTROLLER:
            raise refuse(attributes, "only system:masters and the node controller may change which certificates hold")
