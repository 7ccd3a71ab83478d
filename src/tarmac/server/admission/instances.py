"""InstanceCreation: Instances are made by the controllers, from WorkloadDeployments, and by nobody else."""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.refusal import refuse

CONTROLLERS = frozenset({"system:kube-controller-manager", "system:tarmac:controllers"})
"""The controllers' own identity, and the group that identities of controllers elsewhere carry."""


class InstanceCreation(Plugin):
    """Refuses everybody but the controllers, whatever their roles allow."""

    name = "InstanceCreation"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "compute.datumapis.com/instances" and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        # Here and not in `validate`: somebody who may not create one need not be told what is wrong with theirs.
        if not CONTROLLERS.intersection((attributes.user.name, *attributes.user.groups)):
            raise refuse(attributes, "instances are created by the controllers only; create a Workload instead")
