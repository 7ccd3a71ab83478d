"""InstanceCreation: Instances are made by one controller, from WorkloadDeployments, and by nobody else."""

from __future__ import annotations

from tarmac.api.identities import controller_user
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.refusal import refuse

_MAKER = controller_user("deployment")


class InstanceCreation(Plugin):
    """Refuses everybody but that controller, whatever their roles allow."""

    name = "InstanceCreation"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "compute.datumapis.com/instances" and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        # Here and not in `validate`: somebody who may not create one need not be told what is wrong with theirs.
        if attributes.user.name != _MAKER:
            raise refuse(attributes, "instances are created by the controllers only; create a Workload instead")
