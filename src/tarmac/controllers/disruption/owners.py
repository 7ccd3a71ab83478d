"""Expected scale of the pods under a budget, from their owners.

A pod of a Workload belongs to an Instance, which belongs to the WorkloadDeployment of its city. A budget that selects
the pods of several cities counts the replicas of each of them, including a city that has no pod at the moment: its
missing pods are missing from the budget. A replacement for a lost city is not counted in addition to the city itself.
Pods of Kubernetes' own kinds count by the scale of their owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tarmac.api.compute.names import API_VERSION, LABEL_MOVED_FROM, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.base.selectors import LabelMatcher
from tarmac.client.cache import Item, by_label
from tarmac.client.envelope import EnvelopeOwner
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.typed import DEPLOYMENTS, INSTANCES
from tarmac.controllers.disruption.scales import MAX_OWNERS, Scales
from tarmac.decide.derived.instances import instance_labels
from tarmac.decide.rollout import desired_replicas

BY_WORKLOAD = "workload"
AT_ONCE = 250  # pods examined between two yields to the event loop


class NoController(Exception):
    """The scale of a pod's controller cannot be determined."""


class Owners:
    """The scales of pods' controllers."""

    def __init__(self, informers: Informers, scales: Scales) -> None:
        self._scales = scales
        self._instances = informers.informer(INSTANCES)
        self.deployments = informers.informer(DEPLOYMENTS)
        self.deployments.add_index(BY_WORKLOAD, by_label(LABEL_WORKLOAD_UID))

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """Informers that must have synced before any count."""
        return (self._instances, self.deployments)

    async def scales(self, pods: Iterable[Item[Any]], selector: LabelMatcher) -> dict[str, int]:
        """Return the scale of every controller of the pods, by uid.

        Pods without a controller have none. Raises NoController.
        """
        alone: dict[str, int] = {}
        asked: dict[str, tuple[str, int]] = {}  # by the uid of the pods' controller
        found: dict[str, WorkloadDeployment] = {}
        for number, pod in enumerate(pods, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            owner = pod.metadata.controller
            if owner is None or owner.uid in alone or owner.uid in asked:
                continue
            if self._scales.knows(owner):
                asked[owner.uid] = await self._asked(pod, owner, len(asked))
                continue
            deployment = self._deployment_of(pod, owner)
            if deployment is None:
                alone[owner.uid] = 1
            elif deployment.metadata.uid not in found:
                found[deployment.metadata.uid] = deployment
                found.update(self._siblings(deployment, selector))
        return {**alone, **dict(asked.values()), **_counted_once(found)}

    async def _asked(self, pod: Item[Any], owner: EnvelopeOwner, before: int) -> tuple[str, int]:
        """Ask the server for the scale of an owner. Raises NoController."""
        if before >= MAX_OWNERS:
            raise NoController(f"more than {MAX_OWNERS} controllers have pods that it selects; use narrower selectors")
        scale = await self._scales.of(pod.metadata.namespace, owner)
        if scale is None:
            raise NoController(f'found no controllers for pod "{pod.metadata.name}"')
        return scale

    def _deployment_of(self, pod: Item[Any], owner: EnvelopeOwner) -> WorkloadDeployment | None:
        """Return the deployment that scales the pod's Instance; None for a standalone Instance. Raises NoController."""
        namespace = pod.metadata.namespace
        ours = (owner.api_version, owner.kind) == (API_VERSION, "Instance")
        instance = self._instances.cache.item(f"{namespace}/{owner.name}") if ours else None
        # By uid: an Instance made again under the name does not own this pod.
        if instance is None or instance.metadata.uid != owner.uid:
            raise NoController(f'found no controllers for pod "{pod.metadata.name}"')
        above = instance.metadata.controller
        deployment = self.deployments.get(f"{namespace}/{above.name}") if above is not None else None
        return deployment if above is not None and deployment and deployment.metadata.uid == above.uid else None

    def _siblings(self, deployment: WorkloadDeployment, selector: LabelMatcher) -> dict[str, WorkloadDeployment]:
        """Return the same Workload's deployments whose pods the budget would select."""
        workload = deployment.metadata.labels.get(LABEL_WORKLOAD_UID, "")
        others = [item.object for item in self.deployments.indexed(BY_WORKLOAD, workload)]
        return {each.metadata.uid: each for each in others if selector.matches(instance_labels(each, 0))}


def _counted_once(deployments: dict[str, WorkloadDeployment]) -> dict[str, int]:
    own = {_place(each) for each in deployments.values() if LABEL_MOVED_FROM not in each.metadata.labels}
    return {
        uid: _scale(each)
        for uid, each in deployments.items()
        if LABEL_MOVED_FROM not in each.metadata.labels or _place(each) not in own
    }


def _place(deployment: WorkloadDeployment) -> tuple[str, str]:
    """Return the placement, and the city that the instances belong to originally."""
    spec = deployment.spec
    return spec.placement_name, deployment.metadata.labels.get(LABEL_MOVED_FROM, spec.city_code)


def _scale(deployment: WorkloadDeployment) -> int:
    if deployment.metadata.deletion_timestamp is not None:
        return 0
    return desired_replicas(deployment.spec.scale_settings, deployment.spec.replicas)
