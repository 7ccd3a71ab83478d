"""Creates `default` Networks beside a foreign API server: only where a Workload names one.

Namespaces and Pods there are connected by the cluster's own CNI; only Workloads rely on Networks.
"""

from __future__ import annotations

import msgspec

from tarmac.api.compute.workload import Workload
from tarmac.api.networking.names import DEFAULT_NETWORK
from tarmac.api.status import AlreadyExists, Forbidden, NotFound
from tarmac.client.cache import Item
from tarmac.client.targets.typed import NETWORKS, WORKLOADS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.network.defaults import default_network
from tarmac.controllers.network.networks import MANAGER

BY_DEFAULT_NETWORK = "default-network"


class WorkloadNetworks:
    """Reconciles by namespace name."""

    def __init__(self, context: ControllerContext) -> None:
        self._networks = context.client.resource(NETWORKS)
        self._known = context.informers.informer(NETWORKS)
        self._workloads = context.informers.informer(WORKLOADS)
        self._workloads.add_index(BY_DEFAULT_NETWORK, _namespaces)
        self._controller = context.controller("workload-network", self.reconcile)
        self._controller.watches(self._workloads, _namespaces)
        self._controller.watches(self._known, lambda item: (item.metadata.namespace,))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, namespace: str) -> None:
        """Create the Network of one namespace if it is missing and a Workload names it."""
        if f"{namespace}/{DEFAULT_NETWORK}" in self._known.cache:
            return
        if not self._workloads.indexed(BY_DEFAULT_NETWORK, namespace):
            return
        try:
            await self._networks.create(default_network(namespace, DEFAULT_NETWORK), manager=MANAGER)
        except (AlreadyExists, Forbidden, NotFound):
            return  # created concurrently, or the namespace is terminating or deleted


def _namespaces(item: Item[Workload]) -> tuple[str, ...]:
    """Return the namespaces in which the Workload needs a Network called `default`; none while it is being deleted."""
    if item.metadata.deletion_timestamp is not None:
        return ()
    try:
        interfaces = item.object.spec.template.spec.network_interfaces
    except msgspec.ValidationError:
        return ()  # a server without our kinds does not validate them, so some cannot be decoded
    named = (each.network for each in interfaces if each.network.name == DEFAULT_NETWORK)
    return tuple({each.namespace or item.metadata.namespace: None for each in named})
