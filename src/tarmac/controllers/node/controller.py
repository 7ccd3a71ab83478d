"""Marks silent nodes as Unknown, and gives every node the taints that its conditions require.

Taints that bar new pods follow the conditions at once. The NoExecute taint is rate-limited per Location, and is removed
when the node recovers or when its whole Location turns out to be cut off.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.node.decommission import Decommission
from tarmac.controllers.node.evictions import TaintEvictions
from tarmac.controllers.node.heartbeats import Heartbeats
from tarmac.controllers.node.zones import Zones, zone_of
from tarmac.controllers.nodefacts import NodeCondition, NodeTaint, ObservedNode, read_node
from tarmac.decide.nodes import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY,
    OWN_KEYS,
    UNREACHABLE,
    Disruption,
    key_that_drives_away,
    keys_that_bar,
)

MANAGER = "tarmac-node"
_UNKNOWN_WHEN_SILENT = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_DRIVING = (NOT_READY, UNREACHABLE)
_RETRY_SECONDS = 10.0  # for a node that may not be tainted yet


class NodeController:
    """Reconciles by node name; `evictions` acts on the resulting taints, `decommission` removes leaving nodes."""

    def __init__(self, context: ControllerContext) -> None:
        client = context.client
        self._clock = client.clock
        self._recorder = context.recorder
        self._nodes = client.resource(NODES)
        self._known = context.informers.informer(NODES)
        self._heartbeats = Heartbeats(client, context.informers, context.settings.node_grace)
        self._zones = Zones(self._known)
        self._evictions = TaintEvictions(context, self._heartbeats)
        self._decommission = Decommission(context, self._evictions.pods_by_node)
        self._controller = context.controller("node", self.reconcile)
        self._controller.watches(self._known, self._concerned)
        self._controller.awaits(self._heartbeats.leases)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._evictions.run())
            group.create_task(self._decommission.run())

    def _concerned(self, item: Item[Any]) -> list[str]:
        """Return the nodes to reconcile: while the Location is cut off, any node's change concerns all of its nodes."""
        zone = zone_of(item)
        cut_off = self._zones.state(zone) is Disruption.CUT_OFF
        return self._zones.members(zone) if cut_off else [item.key]

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Bring one node's conditions and taints in line with its heartbeats."""
        item = self._known.cache.item(name)
        if item is None:
            return None
        facts = read_node(item.raw)
        left = self._heartbeats.silent_in(name)
        if left <= 0 and facts.readiness != "Unknown":
            # The server decides: with a broken watch of our own, every node would look silent.
            if not await self._heartbeats.confirm_silent(name):
                return RetryAfter(max(0.0, self._heartbeats.silent_in(name)))
            await self._declare_silent(facts)
            return None  # the change triggers the next pass
        again = await self._taint(zone_of(item), facts)
        if facts.readiness != "True":
            await self._evictions.mark_not_ready(name)
        waits = [seconds for seconds in (again, left if left > 0 else None) if seconds is not None]
        return RetryAfter(min(waits)) if waits else None

    async def _declare_silent(self, facts: ObservedNode) -> None:
        now = rfc3339(self._clock.now())
        known = {each.type: each for each in facts.status.conditions or ()}
        conditions = [_silent(kind, known.get(kind), now) for kind in _UNKNOWN_WHEN_SILENT]
        # Conditional: a heartbeat written since the read must not be overwritten with Unknown.
        patch = {"metadata": {"resourceVersion": facts.metadata.resource_version}, "status": {"conditions": conditions}}
        await self._nodes.patch(facts.name, patch, type="strategic", subresource="status", manager=MANAGER)
        about = InvolvedObject("v1", "Node", facts.name, uid=facts.metadata.uid)
        self._recorder.event(about, "Normal", "NodeNotReady", f"Nothing is heard from node {facts.name} any more")

    async def _taint(self, zone: str, facts: ObservedNode) -> float | None:
        """Write the taints that the node should have. Return the seconds until a delayed taint may be added."""
        driving, again = self._no_execute(zone, facts)
        wanted = [*self._applicable(facts, driving), *self._missing(facts, driving)]
        if wanted == facts.taints:
            return again
        if driving is not None and not _has(facts, driving, NO_EXECUTE):
            # before the write: further nodes are reconciled meanwhile
            self._zones.tainted(zone, self._clock.monotonic())
        taints = [_document(taint) for taint in wanted]
        # Conditional: the list is replaced as a whole, and a taint added since by an administrator must survive.
        patch = {"metadata": {"resourceVersion": facts.metadata.resource_version}, "spec": {"taints": taints or None}}
        await self._nodes.patch(facts.name, patch, manager=MANAGER)
        return again

    def _no_execute(self, zone: str, facts: ObservedNode) -> tuple[str | None, float | None]:
        """Return the key of the NoExecute taint to have now, and the seconds to the next check if it must wait."""
        key = key_that_drives_away(facts.readiness)
        if key is None:
            return None, None
        wait = self._zones.taint_delay(zone, self._clock.monotonic())
        # the Location is cut off, or too many nodes fail: no node is tainted; if cut off, the taint is removed
        if wait is None:
            kept = None if self._zones.state(zone) is Disruption.CUT_OFF or not _has(facts, key, NO_EXECUTE) else key
            return kept, _RETRY_SECONDS
        if wait == 0 or _has(facts, key, NO_EXECUTE):
            return key, None
        return None, wait

    def _applicable(self, facts: ObservedNode, driving: str | None) -> list[NodeTaint]:
        """Return the taints that are not ours, and those of ours that still apply."""
        barring = self._no_schedule_keys(facts)
        return [
            taint
            for taint in facts.taints
            if taint.key not in OWN_KEYS
            or (taint.effect == NO_SCHEDULE and taint.key in barring)
            or (taint.effect == NO_EXECUTE and (taint.key not in _DRIVING or taint.key == driving))
            or taint.effect not in (NO_SCHEDULE, NO_EXECUTE)
        ]

    def _missing(self, facts: ObservedNode, driving: str | None) -> list[NodeTaint]:
        now = rfc3339(self._clock.now())
        wanted = [(key, NO_SCHEDULE) for key in sorted(self._no_schedule_keys(facts))]
        wanted += [(driving, NO_EXECUTE)] if driving is not None else []
        return [NodeTaint(key, effect, time_added=now) for key, effect in wanted if not _has(facts, key, effect)]

    def _no_schedule_keys(self, facts: ObservedNode) -> frozenset[str]:
        conditions = {each.type: each.status for each in facts.status.conditions or ()}
        conditions.setdefault("Ready", "False")  # a node that has not reported yet
        return keys_that_bar(conditions, facts.spec.unschedulable)


def _silent(kind: str, known: NodeCondition | None, now: str) -> JsonObject:
    """Return a condition of a silent node."""
    return {
        "type": kind,
        "status": "Unknown",
        "reason": "NodeStatusUnknown" if known else "NodeStatusNeverUpdated",
        "message": "Nothing is heard from the node any more." if known else "Nothing was ever heard from the node.",
        "lastHeartbeatTime": known.last_heartbeat_time if known else None,
        "lastTransitionTime": now,
    }


def _has(facts: ObservedNode, key: str, effect: str) -> bool:
    return any((taint.key, taint.effect) == (key, effect) for taint in facts.taints)


def _document(taint: NodeTaint) -> JsonObject:
    found = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in found.items() if value}
