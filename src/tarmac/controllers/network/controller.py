"""Runs the network controllers: default Networks, Networks, bindings, contexts, claims and subnets."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tarmac.api.compute.workload import Workload
from tarmac.api.networking.names import DEFAULT_NETWORK, LABEL_BOUND_FOR
from tarmac.api.networking.network import NetworkBinding
from tarmac.api.status import AlreadyExists, Forbidden, NotFound
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.typed import LOCATIONS, NETWORK_BINDINGS, NETWORKS, WORKLOADS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import BY_NETWORK, network_key, network_of_binding
from tarmac.controllers.network.bindings import BindingController
from tarmac.controllers.network.contexts import ContextController
from tarmac.controllers.network.defaults import DefaultNetworks, default_network
from tarmac.controllers.network.networks import MANAGER, NetworkController
from tarmac.controllers.network.subnets import SubnetController
from tarmac.controllers.writes import delete_same

RETRY_SECONDS = 5.0  # while addresses are still in use
BY_LOCATION = "location"

BY_DEFAULT_NETWORK = "default-network"


# Creates `default` Networks beside a foreign API server: only where a Workload names one.
#
# Namespaces and Pods there are connected by the cluster's own CNI; only Workloads rely on Networks.


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


# Deletes the bindings that the scheduler created for Pods without an Instance, which no deployment owns.
#
# A binding stays while its Network and its Location exist, even without Pods: it is small, and the next Pod starts
# sooner. It is deleted with its Location, or when its Network is being deleted and no address of it is in use.


class PodBindingCleaner:
    """Reconciles by the binding's key."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._bindings = context.client.resource(NETWORK_BINDINGS)
        self._addresses = context.addresses
        self._known = informers.informer(NETWORK_BINDINGS)
        self._known.add_index(BY_NETWORK, network_of_binding)
        self._known.add_index(BY_LOCATION, lambda item: (item.object.spec.location.name,))
        self._networks = informers.informer(NETWORKS)
        self._locations = informers.informer(LOCATIONS)
        self._controller = context.controller("pod-network-binding", self.reconcile)
        self._controller.watches(self._known, lambda item: (item.key,) if _is_for_pods(item) else ())
        self._controller.watches(self._networks, lambda item: self._concerned(BY_NETWORK, item.key))
        self._controller.watches(self._locations, lambda item: self._concerned(BY_LOCATION, item.metadata.name))
        for informer in self._addresses.informers:
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _concerned(self, index: str, value: str) -> list[str]:
        return [item.key for item in self._known.indexed(index, value) if _is_for_pods(item)]

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Delete one binding that is no longer needed."""
        binding = self._known.get(key)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return None
        if binding.spec.location.name in self._locations.cache and not self._network_goes(binding):
            return None
        # Without a binding the Network is deleted, and its range released while pods still use addresses of it.
        if self._addresses.uses(network_key(binding)) and binding.spec.location.name in self._locations.cache:
            return RetryAfter(RETRY_SECONDS)
        await delete_same(self._bindings, binding.metadata)
        return None

    def _network_goes(self, binding: NetworkBinding) -> bool:
        network = self._networks.get(network_key(binding))
        return network is None or network.metadata.deletion_timestamp is not None


def _is_for_pods(item: Item[Any]) -> bool:
    return LABEL_BOUND_FOR in (item.metadata.labels or {})


class NetworkControllers:
    """Independent loops that interact only through the objects they write."""

    def __init__(self, context: ControllerContext) -> None:
        self._parts = (
            DefaultNetworks(context) if context.networked else WorkloadNetworks(context),
            NetworkController(context),
            BindingController(context),
            ContextController(context),
            SubnetController(context),
            *((PodBindingCleaner(context),) if context.networked else ()),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run())
