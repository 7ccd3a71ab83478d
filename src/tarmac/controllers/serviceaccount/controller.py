"""Keeps a `default` ServiceAccount and a `kube-root-ca.crt` ConfigMap in every namespace.

Both are created again when deleted, and the ConfigMap is restored when changed. Both are watched by name, so the caches
hold one object per namespace and nothing else.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.tasks import background
from tarmac.client.cache import Item
from tarmac.client.targets.untyped import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.serviceaccount.rootca import changes
from tarmac.controllers.writes import create_if_absent

ACCOUNT = "default"
CA_MAP = "kube-root-ca.crt"
DESCRIPTION = "kubernetes.io/description"


class ServiceAccountController:
    """Reconciles by namespace name."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._accounts = client.resource(SERVICE_ACCOUNTS)
        self._maps = client.resource(CONFIG_MAPS)
        self._root_ca = context.root_ca
        self._clock = client.clock
        self._namespaces = informers.informer(NAMESPACES)
        self._known_accounts = informers.informer(SERVICE_ACCOUNTS, fields=f"metadata.name={ACCOUNT}")
        self._known_maps = informers.informer(CONFIG_MAPS, fields=f"metadata.name={CA_MAP}")
        self._controller = context.controller("serviceaccount", self.reconcile)
        self._controller.watches(self._namespaces)
        self._controller.watches(self._known_accounts, _namespace)
        self._controller.watches(self._known_maps, _namespace)

    async def run(self) -> None:
        """Work until cancelled."""
        async with background(self._watch_root_ca(), "the server's authorities"):
            await self._controller.run()

    async def _watch_root_ca(self) -> None:
        """Requeue every namespace when the server's CA bundle changes."""
        async for _ in changes(self._root_ca, self._clock):
            for item in self._namespaces.cache.items():
                self._controller.queue.add(item.key)

    async def reconcile(self, namespace: str) -> None:
        """Create the missing objects of one namespace."""
        item = self._namespaces.cache.item(namespace)
        if item is None or item.metadata.deletion_timestamp is not None:
            return
        if f"{namespace}/{ACCOUNT}" not in self._known_accounts.cache:
            await create_if_absent(self._accounts, _object("ServiceAccount", namespace, ACCOUNT))
        # Empty where another component publishes it: an empty bundle would break every client in the namespace.
        if self._root_ca():
            await self._ensure_map(namespace)

    async def _ensure_map(self, namespace: str) -> None:
        data = {"ca.crt": self._root_ca()}
        known = self._known_maps.get(f"{namespace}/{CA_MAP}")
        if known is None:
            wanted = _object("ConfigMap", namespace, CA_MAP)
            wanted["metadata"]["annotations"] = {DESCRIPTION: "CA bundle that verifies the API server's certificate"}
            wanted["data"] = data
            await create_if_absent(self._maps, wanted)
        elif known.get("data") != data or known.get("binaryData"):
            # The object read carries its version: a concurrent change makes this a Conflict, and the pass is repeated.
            await self._maps.update({**known, "data": data, "binaryData": None})


def _namespace(item: Item[Any]) -> tuple[str, ...]:
    return (item.metadata.namespace,)


def _object(kind: str, namespace: str, name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
