"""Runs both schedulers on one copy of the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.identities import DEPLOYMENT_SCHEDULER, POD_SCHEDULER
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.networking.names import ANNOTATION_INTERFACES, LABEL_LOCATION
from tarmac.api.partial import whereabouts
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.scheduler.deploymentscheduler import DeploymentScheduler
from tarmac.controllers.scheduler.interfaceassigner import MANAGER, PodInterfaceAssigner
from tarmac.controllers.scheduler.podfacts import read_facts
from tarmac.controllers.scheduler.podscheduler import PodScheduler
from tarmac.controllers.scheduler.schedulerstate import SchedulerState
from tarmac.decide import reasons

RETRY_SECONDS = 2.0


# Interfaces for Pods bound without this scheduler: created with a node, or bound by a foreign scheduler.
#
# Their node waits for the annotation, so it may follow the binding. Mirror Pods get none.


class ForeignBindings:
    """Reconciles by the Pod's key."""

    def __init__(self, context: ControllerContext, interfaces: PodInterfaceAssigner) -> None:
        self._interfaces = interfaces
        self._pods = context.client.resource(PODS)
        self._known = context.informers.informer(PODS)
        self._nodes = context.informers.informer(NODES)
        self._controller = context.controller("late-interfaces", self.reconcile)
        self._known.on_change(self._changed)
        for informer in (self._known, self._nodes, *interfaces.informers):
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Queue a Pod only when it comes to a node: when it appears there, or is bound."""
        if new is None or not self._interfaces.enabled or not _lacks(new) or (old is not None and _on_node(old)):
            return
        if _on_node(new):
            self._controller.queue.add(new.key)

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Assign an interface to one Pod if it has none."""
        item = self._known.cache.item(key)
        if item is None or not _lacks(item) or item.metadata.deletion_timestamp is not None:
            return None
        facts = read_facts(item.raw)
        node = self._nodes.cache.item(facts.spec.node_name)
        if facts.ended or node is None:
            return None
        verdict = await self._interfaces.of(item, (node.metadata.labels or {}).get(LABEL_LOCATION, ""))
        if verdict.value is None:
            later = verdict.refusals[0].reason == reasons.PROVISIONING_NETWORK
            return RetryAfter(RETRY_SECONDS if later else 10 * RETRY_SECONDS)
        if verdict.value:
            patch, metadata = {"metadata": {"annotations": {ANNOTATION_INTERFACES: verdict.value}}}, item.metadata
            # By uid: the addresses are promised to this Pod, not to a successor of its name.
            await self._pods.patch(metadata.name, patch, metadata.namespace, manager=MANAGER, uid=metadata.uid)
        return None


def _on_node(item: Item[Any]) -> bool:
    return bool(whereabouts(item.raw).spec.node_name)


def _lacks(item: Item[Any]) -> bool:
    annotations = item.metadata.annotations
    return ANNOTATION_INTERFACES not in (annotations or {}) and not is_mirror(annotations)


class Schedulers:
    """Assigns Locations to deployments, nodes to pods, and interfaces to pods without an Instance."""

    def __init__(self, context: ControllerContext) -> None:
        for_pods = context.acting_as(POD_SCHEDULER)
        schedulers, classes = frozenset(context.settings.scheduler_names), context.settings.class_resources
        state = SchedulerState(for_pods.client, context.informers, schedulers, classes=classes)
        interfaces = PodInterfaceAssigner(for_pods)
        self._deployments = DeploymentScheduler(context.acting_as(DEPLOYMENT_SCHEDULER), state)
        self._pods = PodScheduler(for_pods, state, interfaces)
        self._foreign_bindings = ForeignBindings(for_pods, interfaces)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deployments.run())
            group.create_task(self._pods.run())
            group.create_task(self._foreign_bindings.run())
