"""Keeps the status of every PodDisruptionBudget: the number of its pods that may be evicted.

The eviction subresource spends the allowed number and records the evicted pods. Both write the same status, each
conditionally on the version it has read, so neither undoes the other: the loser of a conflict reads again. Evictions
are refused until the pods have been counted, so a controller that is stopped or behind never allows too many.

A budget allows nothing and reports the reason if its pods cannot be counted, because an unknown kind controls them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.client.cache import Item, by_namespace
from tarmac.client.controller import RetryAfter
from tarmac.client.eventrecorder import InvolvedObject, reference
from tarmac.client.targets.untyped import BUDGETS, PODS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.disruption.owners import AT_ONCE, NoController, Owners
from tarmac.controllers.disruption.scales import Scales
from tarmac.controllers.writes import difference
from tarmac.decide import reasons
from tarmac.decide.derived.instances import instance_labels
from tarmac.decide.disruption import PodHealth, failed_status, read_health, status_of, wants_scale

MANAGER = "tarmac-disruption"
BY_NAMESPACE = "namespace"
DEBOUNCE_SECONDS = 0.1  # pods of a rollout change together
# retry interval for pods that cannot be counted: no watch reports when their controller becomes known
RETRY_SECONDS = 30.0


class DisruptionController:
    """Reconciles by the budget's key."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._clock = context.client.clock
        self._recorder = context.recorder
        self._budgets = context.client.resource(BUDGETS)
        self._selectors: dict[str, dict[str, LabelMatcher]] = {}  # by namespace, then by the budget's key
        self._known = informers.informer(BUDGETS)
        self._known.on_change(self._budget_changed)
        self._pods = informers.informer(PODS)
        self._pods.add_index(BY_NAMESPACE, by_namespace)
        self._owners = Owners(informers, Scales(context.client))
        self._controller = context.controller("disruption", self.reconcile)
        self._controller.watches(self._known)
        for informer in (self._pods, *self._owners.informers):
            self._controller.awaits(informer)
        self._pods.on_change(self._pod_changed)
        self._owners.deployments.on_change(self._deployment_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _budget_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if old is not None and new is None:
            self._selectors.get(old.metadata.namespace, {}).pop(old.key, None)
        elif new is not None and (old is None or old.metadata.generation != new.metadata.generation):
            selector = LabelMatcher.from_object(new.object["spec"].get("selector"))
            self._selectors.setdefault(new.metadata.namespace, {})[new.key] = selector

    def _pod_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        states = [item for item in (old, new) if item is not None]
        namespace = states[0].metadata.namespace
        if not self._selectors.get(namespace):  # most namespaces have no budget, and pods change all the time
            return
        if len(states) == 2 and _is_irrelevant(states[0], states[1]):
            return
        # Both states: a pod that has lost a label no longer counts for the budget that selected it before.
        for state in states:
            self._wake(namespace, state.metadata.labels or {})

    def _deployment_changed(self, old: Item[WorkloadDeployment] | None, new: Item[WorkloadDeployment] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        scaled = old is None or new is None or old.metadata.generation != new.metadata.generation
        if scaled and self._selectors.get(item.metadata.namespace):
            self._wake(item.metadata.namespace, instance_labels(item.object, 0))

    def _wake(self, namespace: str, labels: dict[str, str]) -> None:
        for key, selector in self._selectors[namespace].items():
            if selector.matches(labels):
                self._controller.queue.add_after(key, DEBOUNCE_SECONDS)

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Count the pods of one budget and write its status."""
        item = self._known.cache.item(key)
        if item is None or item.metadata.deletion_timestamp is not None:
            return None
        budget = item.object
        selector = LabelMatcher.from_object(budget["spec"].get("selector"))
        of_namespace = self._pods.indexed(BY_NAMESPACE, item.metadata.namespace)
        own = (pod for pod in of_namespace if not is_mirror(pod.metadata.annotations))
        pods = [pod for pod in own if selector.matches(pod.metadata.labels or {})]
        health = await _read(pods)
        try:
            scales = await self._owners.scales(pods, selector) if wants_scale(budget["spec"]) else {}
        except NoController as error:
            if await self._write(item, failed_status(budget, str(error), self._clock.now())):
                message = f"Failed to calculate the number of expected pods: {error}"
                self._recorder.event(reference(budget), "Warning", reasons.CALCULATE_EXPECTED_POD_COUNT_FAILED, message)
            return RetryAfter(RETRY_SECONDS)
        now = self._clock.now()
        census = status_of(budget, health, scales, now)
        if await self._write(item, census.status):
            self._record_events(budget, pods, census.overdue)
        return RetryAfter(max(0.0, census.recheck - now)) if census.recheck is not None else None

    async def _write(self, item: Item[JsonObject], status: JsonObject) -> bool:
        """Write the fields that differ, conditional on the counted version. An eviction in between raises Conflict."""
        patch = difference(item.object.get("status") or {}, status)
        if not patch:
            return False
        own = item.metadata
        body = {"metadata": {"resourceVersion": own.resource_version}, "status": patch}
        await self._budgets.patch(own.name, body, own.namespace, subresource="status", manager=MANAGER)
        return True

    def _record_events(self, budget: JsonObject, pods: Iterable[Item[Any]], overdue: tuple[str, ...]) -> None:
        own = budget["metadata"]
        found = {pod.metadata.name: pod.metadata for pod in pods}
        if not found:
            self._recorder.event(reference(budget), "Normal", reasons.NO_PODS, "No matching pods found")
        elif wants_scale(budget["spec"]) and any(pod.controller is None for pod in found.values()):
            message = (
                "Pods that nothing controls are selected: a percentage or maxUnavailable does not count them. "
                "To account for these pods set .spec.minAvailable to a number."
            )
            self._recorder.event(reference(budget), "Warning", reasons.UNMANAGED_PODS, message)
        for name in overdue:
            about = InvolvedObject("v1", "Pod", name, own["namespace"], found[name].uid)
            message = f"Pod was expected by PDB {own['namespace']}/{own['name']} to be deleted but it wasn't"
            self._recorder.event(about, "Warning", reasons.NOT_DELETED, message)


def _is_irrelevant(old: Item[Any], new: Item[Any]) -> bool:
    """Return True if a change of a pod does not affect any count."""
    return (old.metadata.labels, read_health(old.raw)) == (new.metadata.labels, read_health(new.raw))


async def _read(pods: list[Item[Any]]) -> list[PodHealth]:
    """Decode the health of each pod. A pod that changes meanwhile triggers another pass."""
    found: list[PodHealth] = []
    for number, pod in enumerate(pods, 1):
        found.append(read_health(pod.raw))
        # A budget may select tens of thousands of pods: decoded in one turn, they would block the loop.
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found
