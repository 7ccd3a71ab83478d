"""InstanceCreation: only the deployment controller creates Instances, from WorkloadDeployments."""

from __future__ import annotations

from tarmac.api.identities import controller_user
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse

_MAKER = controller_user("deployment")


class InstanceCreation(AdmissionPlugin):
    """Rejects all other users, regardless of their roles."""

    name = "InstanceCreation"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "compute.datumapis.com/instances" and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        # Here and not in `validate`: a user without the right gets this error instead of errors about the object.
        if attributes.user.name != _MAKER:
            raise refuse(attributes, "instances are created by the controllers only; create a Workload instead")
