"""A Network called `default` in every namespace, made again when it is deleted.

Namespaces of the system itself get none, nor does one whose annotation declines it.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import ANNOTATION_DEFAULT_NETWORK, DEFAULT_NETWORK
from tarmac.api.networking.network import IPAM, Network, NetworkSpec
from tarmac.api.shared import ObjectMeta
from tarmac.api.status import AlreadyExists, Forbidden
from tarmac.client.cache import Item
from tarmac.client.targets import NAMESPACES
from tarmac.controllers.context import Context
from tarmac.controllers.network.networks import MANAGER
from tarmac.controllers.targets import NETWORKS

SYSTEM = "kube-"


class DefaultNetworks:
    """Reconciles by namespace name."""

    def __init__(self, context: Context) -> None:
        self._networks = context.client.resource(NETWORKS)
        self._namespaces = context.informers.informer(NAMESPACES)
        self._known = context.informers.informer(NETWORKS)
        self._controller = context.controller("default-network", self.reconcile)
        self._controller.watches(self._namespaces)
        self._controller.watches(self._known, _namespace_of_default)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, namespace: str) -> None:
        """Make the Network of one namespace if it is missing and wanted."""
        item = self._namespaces.cache.item(namespace)
        if item is None or not _wants_network(item) or f"{namespace}/{DEFAULT_NETWORK}" in self._known.cache:
            return
        try:
            await self._networks.create(_default_network(namespace), manager=MANAGER)
        except (AlreadyExists, Forbidden):
            return  # somebody was faster, or the namespace has begun to terminate


def _wants_network(item: Item[Any]) -> bool:
    metadata = item.metadata
    declined = (metadata.annotations or {}).get(ANNOTATION_DEFAULT_NETWORK) == "none"
    return metadata.deletion_timestamp is None and not declined and not metadata.name.startswith(SYSTEM)


def _namespace_of_default(item: Item[Any]) -> tuple[str, ...]:
    return (item.metadata.namespace,) if item.metadata.name == DEFAULT_NETWORK else ()


def _default_network(namespace: str) -> Network:
    return Network(
        metadata=ObjectMeta(name=DEFAULT_NETWORK, namespace=namespace),
        spec=NetworkSpec(ipam=IPAM("Auto"), ip_families=["IPv4", "IPv6"]),
    )
