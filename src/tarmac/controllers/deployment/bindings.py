"""NetworkBindings of deployments: one per interface, created again when the interface's Network changes."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.networking.network import NetworkBinding
from tarmac.api.shared import LocationReference
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item, by_label
from tarmac.client.controller import Controller, controller_key
from tarmac.client.targets.typed import NETWORK_BINDINGS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.deployment.network import DeploymentNetworks
from tarmac.controllers.indexes import (
    BY_CONTEXT,
    BY_NETWORK,
    context_of_binding,
    context_of_claim,
    network_of_binding,
)
from tarmac.controllers.nameconflict import name_taken
from tarmac.controllers.writes import delete_same
from tarmac.decide.derived.instances import binding_documents
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-deployment"
BY_DEPLOYMENT = "deployment"

_owner = controller_key("WorkloadDeployment")


class DeploymentBindings:
    """Creates and deletes bindings, and maps a change of a Network to the deployments it concerns."""

    def __init__(self, context: ControllerContext, networks: DeploymentNetworks) -> None:
        self._resource = context.client.resource(NETWORK_BINDINGS)
        self._networks = networks
        self._known = networks.bindings
        self._known.add_index(BY_DEPLOYMENT, by_label(LABEL_DEPLOYMENT_UID))
        self._known.add_index(BY_CONTEXT, context_of_binding)
        self._known.add_index(BY_NETWORK, network_of_binding)

    def wake(self, controller: Controller) -> None:
        """Call the controller for every deployment whose networks change."""
        controller.watches(self._known, _owner)
        controller.watches(self._networks.networks, lambda item: self._owners(BY_NETWORK, item.key))
        controller.watches(self._networks.contexts, lambda item: self._owners(BY_CONTEXT, item.key))
        controller.watches(self._networks.subnets, self._of_subnet)

    def _of_subnet(self, item: Item[Any]) -> list[str]:
        return [key for context in context_of_claim(item) for key in self._owners(BY_CONTEXT, context)]

    def _owners(self, index: str, value: str) -> list[str]:
        return [key for binding in self._known.indexed(index, value) for key in _owner(binding)]

    async def ensure(self, deployment: WorkloadDeployment, location: LocationReference) -> Refusal | None:
        """Create missing bindings and delete unwanted ones. Return a refusal if a name is taken."""
        wanted = {each.metadata.name: each for each in binding_documents(deployment, location)}
        for item in self._known.indexed(BY_DEPLOYMENT, deployment.metadata.uid):
            binding = wanted.get(item.metadata.name)
            # A binding with another spec is deleted here, and created again in the pass that its deletion starts.
            if binding is None or binding.spec != item.object.spec:
                await self._remove(item)
        for binding in wanted.values():
            item = self._known.cache.item(f"{binding.metadata.namespace}/{binding.metadata.name}")
            if item is None:
                await self._create(binding)
            # By uid: it may belong to an earlier deployment of the name, and goes with it.
            elif item.metadata.controller is None or item.metadata.controller.uid != deployment.metadata.uid:
                going = item.metadata.deletion_timestamp is not None
                return name_taken("NetworkBinding", binding.metadata.name, going=going)
        return None

    async def remove(self, deployment_uid: str) -> None:
        """Delete all bindings of a deployment, including orphaned ones."""
        for item in self._known.indexed(BY_DEPLOYMENT, deployment_uid):
            await self._remove(item)

    async def _create(self, binding: NetworkBinding) -> None:
        try:
            await self._resource.create(binding, manager=MANAGER)
        except AlreadyExists:
            return  # the cache is behind; the existing binding triggers the next pass

    async def _remove(self, item: Item[NetworkBinding]) -> None:
        if item.metadata.deletion_timestamp is None:
            await delete_same(self._resource, item.metadata)
