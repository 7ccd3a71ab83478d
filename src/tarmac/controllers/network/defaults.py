"""Creates a Network called `default` in every namespace, again when it is deleted.

A namespace can decline it with an annotation. The system's namespaces share one Network, under another name, since it
is not a default for users.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import (
    ANNOTATION_DEFAULT_NETWORK,
    DEFAULT_NETWORK,
    INTERNAL_NETWORK,
    SYSTEM_PREFIX,
)
from tarmac.api.networking.network import IPAM, Network, NetworkSpec
from tarmac.api.shared import ObjectMeta
from tarmac.api.status import AlreadyExists, Forbidden
from tarmac.client.cache import Item
from tarmac.client.targets.typed import NETWORKS
from tarmac.client.targets.untyped import NAMESPACES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.network.networks import MANAGER


class DefaultNetworks:
    """Reconciles by namespace name."""

    def __init__(self, context: ControllerContext) -> None:
        self._networks = context.client.resource(NETWORKS)
        self._namespaces = context.informers.informer(NAMESPACES)
        self._known = context.informers.informer(NETWORKS)
        self._controller = context.controller("default-network", self.reconcile)
        self._controller.watches(self._namespaces)
        self._controller.watches(self._known, lambda item: (item.metadata.namespace,))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, namespace: str) -> None:
        """Create the Network of one namespace if it is missing and wanted."""
        item = self._namespaces.cache.item(namespace)
        name = _wanted(item) if item is not None else ""
        if not name or f"{namespace}/{name}" in self._known.cache:
            return
        try:
            await self._networks.create(default_network(namespace, name), manager=MANAGER)
        except (AlreadyExists, Forbidden):
            return  # created concurrently, or the namespace is terminating


def _wanted(item: Item[Any]) -> str:
    """Return the name of the Network that the namespace is to have; empty for none."""
    metadata = item.metadata
    if metadata.deletion_timestamp is not None:
        return ""
    if metadata.name.startswith(SYSTEM_PREFIX):
        namespace, _, name = INTERNAL_NETWORK.partition("/")
        return name if metadata.name == namespace else ""
    return "" if (metadata.annotations or {}).get(ANNOTATION_DEFAULT_NETWORK) == "none" else DEFAULT_NETWORK


def default_network(namespace: str, name: str) -> Network:
    """Return a Network with default settings."""
    return Network(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=NetworkSpec(ipam=IPAM("Auto"), ip_families=["IPv4", "IPv6"]),
    )
