"""Registers nodes, renews their leases, and corrects wrong conditions of healthy nodes.

The annotation `sim.tarmac/fault` on a Node injects a fault. It is handled outside the simulated node, so it takes
effect even if the node cannot be reached.

Each node is a key in one work queue and returns after the heartbeat interval, so thousands of nodes need one timer and
a few workers, and a slow response for one node does not delay the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, LABEL_GATEWAY
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES
from tarmac.api.partial import partial_node
from tarmac.api.status import AlreadyExists, ApiError, NotFound
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.controller import Controller, RetryAfter
from tarmac.client.errors import ClientError
from tarmac.client.eventrecorder import Recorder
from tarmac.client.reflector import Reflector
from tarmac.client.targets.untyped import LEASES, NODES
from tarmac.client.watch import Change
from tarmac.sim.nodes import locationobjects as objects
from tarmac.sim.nodes.settings import FAULT, HeartbeatSettings
from tarmac.sim.nodes.simgpus import record_gpu_events
from tarmac.sim.nodes.simulatednode import SimulatedNode

WORKERS = 128
_SOON = 4  # retries of a failed renewal within an interval

_log = log("simulated-nodes")


class Keeper:
    """Maintains the Node and Lease objects of all nodes."""

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, SimulatedNode],
        heartbeat: HeartbeatSettings,
        recorder: Recorder | None,
        *,
        returned: Callable[[SimulatedNode], Awaitable[None]],
        strike: Callable[[SimulatedNode, str], None],
    ) -> None:
        self.registered = asyncio.Event()  # all nodes are registered
        self._client = client
        self._clock = client.clock
        self._nodes = nodes
        self._heartbeat = heartbeat
        self._returned = returned
        self._strike = strike
        self._recorder = recorder
        self._unregistered = len(nodes)
        self._node_objects = client.resource(NODES)
        self._leases = client.resource(LEASES)
        self._controller = Controller(
            "simulated-heartbeats", self._beat, clock=client.clock, randomness=client.randomness, workers=WORKERS
        )

    async def run(self) -> None:
        """Work until cancelled."""
        for name in self._nodes:
            self._controller.queue.add(name)
        if not self._nodes:
            self.registered.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(Reflector(self._client, NODES, self).run())

    def look_at(self, name: str) -> None:
        """Queue a node after a change."""
        self._controller.queue.add(name)

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Apply a full list of nodes."""
        for change in state:
            self.changed(change)
            yield

    def changed(self, change: Change) -> None:
        """Apply one change of a Node object."""
        node = self._nodes.get(change.metadata.name)
        if node is None:
            return
        view = partial_node(change.raw)
        if change.type == "DELETED":
            node.registered = False
        else:
            self._obey(node, (view.metadata.annotations or {}).get(FAULT, ""))
            self._plug(node, gateway=(view.metadata.labels or {}).get(LABEL_GATEWAY) == "true")
            if view.status.ready:
                return
        node.wrong = True
        self.look_at(node.name)

    def _obey(self, node: SimulatedNode, fault: str) -> None:
        if node.fault != fault:
            node.fault = fault
            self._strike(node, fault)

    def _plug(self, node: SimulatedNode, *, gateway: bool) -> None:
        if node.external and node.gateway != gateway:
            node.gateway, node.replugged = gateway, True
            self.look_at(node.name)

    async def _beat(self, name: str) -> RetryAfter:
        node, interval = self._nodes[name], self._heartbeat.interval
        if not node.hears:
            return RetryAfter(interval)
        try:
            await self._renew(node)
        except (ApiError, ClientError) as error:
            _log.debug("heartbeat failed", node=name, why=str(error))
            return RetryAfter(interval / _SOON)
        return RetryAfter(interval * self._client.randomness.uniform(0.9, 1.0))

    async def _renew(self, node: SimulatedNode) -> None:
        if not node.registered:
            await self._register(node)
        try:
            await self._leases.patch(node.name, objects.renewal(self._clock.now()), objects.LEASE_NAMESPACE)
        except NotFound:
            await self._create(self._leases, objects.lease(node.name, self._heartbeat, self._clock.now()))
        if node.away and node.hears:
            node.away = False
            await self._catch_up(node)
        if node.wrong and node.hears:
            await self._set_right(node)
        if node.replugged and node.hears:
            facts = objects.facts(node.number, gateway=node.gateway)
            await self._node_objects.patch(node.name, {"metadata": {"annotations": {ANNOTATION_NODE_FACTS: facts}}})
            node.replugged = False

    async def _register(self, node: SimulatedNode) -> None:
        made = objects.node(node.name, node.place, node.model, node.address, self._clock.now())
        if node.external:
            facts = objects.facts(node.number, gateway=node.gateway)
            made["metadata"]["annotations"][ANNOTATION_NODE_FACTS] = facts
        if not await self._create(self._node_objects, made):
            metadata = {field: made["metadata"][field] for field in ("labels", "annotations")}
            # An annotation that this node does not set may remain from an earlier node of the same name.
            metadata["annotations"] = {ANNOTATION_DEVICES: None, **metadata["annotations"]}
            await self._node_objects.patch(node.name, {"metadata": metadata})
            node.replugged = node.external  # the existing Node may be an earlier one: its present label decides
            await self._node_objects.patch(
                node.name, {"status": made["status"]}, type="strategic", subresource="status"
            )
        node.registered = True
        record_gpu_events(self._recorder, node)
        self._unregistered -= 1
        if self._unregistered <= 0:
            self.registered.set()

    async def _catch_up(self, node: SimulatedNode) -> None:
        try:
            await self._returned(node)
        except BaseException:
            node.away = True
            raise

    async def _set_right(self, node: SimulatedNode) -> None:
        """Report the node healthy after the node controller declared it dead, or after its Node was deleted."""
        node.wrong = False
        patch = {"status": {"conditions": objects.conditions(self._clock.now())}}
        try:
            await self._node_objects.patch(node.name, patch, type="strategic", subresource="status")
        except NotFound:
            node.registered = False
            raise
        except (ApiError, ClientError):
            node.wrong = True
            raise

    async def _create(self, resource: Any, obj: Any) -> bool:
        try:
            await resource.create(obj)
        except AlreadyExists:
            return False
        return True
