"""Keeps one WorkloadDeployment per placement and city, and the Workload's status true to them.

Deployments are found by the Workload's uid. A name that belongs to somebody else is refused with a reason, a name
that is still being deleted is waited for. While a network of the template does not exist nothing is made or removed:
what runs keeps running. A new template reaches the cities in waves (`decide/rollout/waves.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import ANNOTATION_ANYCAST, FINALIZER, LABEL_WORKLOAD_NAME, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload, WorkloadDeployment, WorkloadStatus
from tarmac.api.conditions import find
from tarmac.api.schema import Json
from tarmac.api.status import AlreadyExists, Conflict, Invalid
from tarmac.client.cache import Item, by_label
from tarmac.client.controller import RetryAfter, Terminal
from tarmac.client.targets.typed import DEPLOYMENTS, LOCATIONS, NETWORKS, WORKLOADS
from tarmac.controllers.context import Context
from tarmac.controllers.ownerlabels import named_by
from tarmac.controllers.taken import name_taken
from tarmac.controllers.workload.events import announce, tell_of_move, tell_of_return
from tarmac.controllers.workload.progressclock import Stillness
from tarmac.controllers.workload.revisions import Revisions
from tarmac.controllers.writing import delete_same, set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import overlap
from tarmac.decide.children.deployments import Child, changes, document
from tarmac.decide.children.goal import Goal, goal_of
from tarmac.decide.children.waves import rollout_facts
from tarmac.decide.placement import Place, place_of, ready_since
from tarmac.decide.rollout import Revision, complete
from tarmac.decide.rollout.stored import history_now, records_of
from tarmac.decide.rollout.waves import Waves, waves
from tarmac.decide.rollup import DeploymentView, PlacementFacts, WorkloadFacts, workload_status
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-workload"
GATHER_SECONDS = 0.1
AGAIN_SECONDS = 15.0  # a name that is taken: its holder does not tell us when it goes
BY_WORKLOAD, BY_NETWORK = "workload", "network"

_OF_WORKLOAD = named_by(LABEL_WORKLOAD_NAME)


class WorkloadController:
    """Reconciles by the Workload's key."""

    def __init__(self, context: Context) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._recorder = context.recorder
        self._workloads = client.resource(WORKLOADS)
        self._deployments = client.resource(DEPLOYMENTS)
        self._known = informers.informer(WORKLOADS)
        self._known.add_index(BY_NETWORK, _networks_of_item)
        self._known_deployments = informers.informer(DEPLOYMENTS)
        self._known_deployments.add_index(BY_WORKLOAD, by_label(LABEL_WORKLOAD_UID))
        self._revisions = Revisions(client, MANAGER)
        self._stillness = Stillness(self._clock, self._known_deployments)
        self._locations = informers.informer(LOCATIONS)
        self._networks = informers.informer(NETWORKS)
        self._controller = context.controller("workload", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._locations, lambda _: self._known.cache.keys())
        self._controller.watches(self._networks, self._users)
        self._controller.watches(self._known_deployments, _OF_WORKLOAD, after=GATHER_SECONDS)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _users(self, item: Item[Any]) -> list[str]:
        return [each.key for each in self._known.indexed(BY_NETWORK, item.key)]

    async def reconcile(self, key: str) -> RetryAfter | None:
        """One pass over one Workload."""
        try:
            workload = self._known.get(key)
        except msgspec.ValidationError as error:
            raise Terminal(f"not a Workload that can be read: {error}") from error
        if workload is None:
            return None
        if workload.metadata.deletion_timestamp is not None:
            await self._finish(workload)
            return None
        if FINALIZER not in workload.metadata.finalizers:
            await set_finalizers(self._workloads, workload.metadata, [*workload.metadata.finalizers, FINALIZER])
            return None
        existing, places = self._existing(workload), self._places()
        goal = self._goal(workload, places, existing)
        history = history_now(workload, self._clock.now())
        history, earlier = await self._revisions.restorable(workload, history)
        waves = self._waves(workload, history, goal, places, existing)
        if waves.under_way:
            # Our copy may be behind what we gave the cities a moment ago, and a wave must not begin on top of another.
            existing = await self._listed(workload)
            waves = self._waves(workload, history, goal, places, existing)
        goal.wake_in(waves.again)
        blocks = self._unusable_networks(workload)
        if not blocks:
            await self._remove_orphans(workload, goal, existing)
            templates = _templates(workload, waves, earlier)
            existing, blocks = await self._ensure(workload, goal, templates, existing)
        await self._explain(workload, history, goal, waves, existing, blocks)
        goal.wake_in(AGAIN_SECONDS if blocks else None)
        return RetryAfter(goal.again) if goal.again is not None else None

    def _existing(self, workload: Workload) -> list[WorkloadDeployment]:
        return [item.object for item in self._known_deployments.indexed(BY_WORKLOAD, workload.metadata.uid)]

    async def _listed(self, workload: Workload) -> list[WorkloadDeployment]:
        """The deployments as the server has them now."""
        own = workload.metadata
        return (await self._deployments.list(own.namespace, labels=f"{LABEL_WORKLOAD_UID}={own.uid}")).items

    def _places(self) -> list[Place]:
        locations = (item.object for item in self._locations.cache.items())
        return [place_of(location, ready_since(location)) for location in locations]

    def _goal(self, workload: Workload, places: Sequence[Place], existing: Sequence[WorkloadDeployment]) -> Goal:
        everywhere = self._known_deployments.cache.items
        return goal_of(workload, places, existing, self._clock.now(), lambda: (item.object for item in everywhere()))

    def _waves(
        self,
        workload: Workload,
        history: Sequence[Revision],
        goal: Goal,
        places: Sequence[Place],
        existing: Sequence[WorkloadDeployment],
    ) -> Waves:
        now = self._clock.now()
        return waves(rollout_facts(workload, history, goal, places, existing, now, self._stillness.seen), now)

    def _unusable_networks(self, workload: Workload) -> list[Refusal]:
        missing = [key for key in _networks(workload) if key not in self._networks.cache]
        if not missing:
            interfaces = workload.spec.template.spec.network_interfaces
            clash = overlap(workload.metadata.namespace, interfaces, self._networks.get)
            return [clash.refusal] if clash is not None else []
        names = ", ".join(missing)
        return [Refusal(reasons.NETWORK_NOT_FOUND, f"Unable to find networks: {names}", change=f"Create {names}.")]

    async def _remove_orphans(self, workload: Workload, goal: Goal, existing: Sequence[WorkloadDeployment]) -> None:
        for deployment in existing:
            metadata = deployment.metadata
            if metadata.name not in goal.children and metadata.deletion_timestamp is None:
                await self._delete(deployment)
                tell_of_return(self._recorder, workload, deployment, goal)

    async def _delete(self, deployment: WorkloadDeployment) -> None:
        if deployment.metadata.deletion_timestamp is None:
            await delete_same(self._deployments, deployment.metadata)

    async def _ensure(
        self,
        workload: Workload,
        goal: Goal,
        templates: Mapping[str, InstanceTemplate],
        existing: Sequence[WorkloadDeployment],
    ) -> tuple[list[WorkloadDeployment], list[Refusal]]:
        """Make and update deployments; all of them as they are then, and why some cannot be made."""
        present = {each.metadata.name: each for each in existing}
        refusals: list[Refusal] = []
        for name, child in goal.children.items():
            result = await self._ensure_one(workload, name, child, templates.get(name), present.get(name))
            if isinstance(result, Refusal):
                refusals.append(result)
            else:
                present[name] = result
        return list(present.values()), refusals

    async def _ensure_one(
        self,
        workload: Workload,
        name: str,
        child: Child,
        template: InstanceTemplate | None,
        present: WorkloadDeployment | None,
    ) -> WorkloadDeployment | Refusal:
        """The server's answer rather than our copy, which is behind what was just written."""
        namespace = workload.metadata.namespace
        if present is None:
            other = self._known_deployments.cache.item(f"{namespace}/{name}")
            if other is not None:
                return _taken(name, child.city, going=other.metadata.deletion_timestamp is not None)
            try:
                made = await self._deployments.create(
                    document(workload, child, template or workload.spec.template), manager=MANAGER
                )
            except AlreadyExists:  # our copy is behind
                present = await self._deployments.get(name, namespace)
                if present.spec.workload_ref.uid != workload.metadata.uid:
                    return _taken(name, child.city, going=present.metadata.deletion_timestamp is not None)
            else:
                tell_of_move(self._recorder, workload, child)
                return made
        if present.metadata.deletion_timestamp is not None:
            return _taken(name, child.city, going=True)
        patch = changes(workload, child, present, template)
        return await self._change(present, patch) if patch else present

    async def _change(self, present: WorkloadDeployment, patch: list[Json]) -> WorkloadDeployment:
        """A patch made from a copy that is behind may not fit any more; that is a lost race, not a mistake."""
        metadata = present.metadata
        try:
            return await self._deployments.patch(metadata.name, patch, metadata.namespace, type="json", manager=MANAGER)
        except Invalid as error:
            current = await self._deployments.get(metadata.name, metadata.namespace)
            if current.metadata.resource_version == metadata.resource_version:
                raise
            raise Conflict(f"{metadata.name} has changed: {error}") from error

    async def _explain(
        self,
        workload: Workload,
        history: Sequence[Revision],
        goal: Goal,
        waves: Waves,
        existing: Sequence[WorkloadDeployment],
        blocks: Sequence[Refusal],
    ) -> None:
        now, known = self._clock.now(), workload.status
        newest = history[-1].template_hash
        views = [
            (each, DeploymentView.of(each, newest, leaving=each.metadata.name not in goal.children))
            for each in existing
        ]
        placements = {placement.name for placement in workload.spec.placements}
        facts = WorkloadFacts(
            generation=workload.metadata.generation,
            revision=newest,
            waves=waves,
            placements=[
                PlacementFacts(
                    name=name,
                    cities=cities,
                    deployments=[view for each, view in views if each.spec.placement_name == name],
                    blocks=goal.blocks[name],
                )
                for name, cities in goal.cities.items()
            ],
            orphans=[view for each, view in views if each.spec.placement_name not in placements],
            blocks=blocks,
            anycast=workload.metadata.annotations.get(ANNOTATION_ANYCAST) == "true",
            paused=workload.spec.paused,
            deleting=workload.metadata.deletion_timestamp is not None,
        )
        status = workload_status(facts, known, now)
        if _is_complete(status) and waves.settled:
            history = complete(history, now)
        if not facts.deleting:
            # Before the status names it: whoever ends in between has kept a template too many, not lost one.
            history = await self._revisions.keep(workload, history)
        status.revisions = records_of(history)
        if await write_status(self._workloads, workload.metadata, known, status, MANAGER) is not None:
            announce(self._recorder, workload, known, status)
            if known is not None and known.revisions and _kept(known) != _kept(status):
                await self._revisions.prune(workload, history)

    async def _finish(self, workload: Workload) -> None:
        """Let a deleted Workload go when all its deployments are gone, asking the server in case our copy is behind."""
        metadata = workload.metadata
        if FINALIZER not in metadata.finalizers:
            return
        existing = self._existing(workload)
        if not existing:
            existing = await self._listed(workload)
        for deployment in existing:
            await self._delete(deployment)
        if existing:
            places = self._places()
            goal, history = self._goal(workload, places, existing), history_now(workload, self._clock.now())
            waves = self._waves(workload, history, goal, places, existing)
            await self._explain(workload, history, goal, waves, existing, ())
        else:
            kept = [each for each in metadata.finalizers if each != FINALIZER]
            await set_finalizers(self._workloads, metadata, kept)


def _networks(workload: Workload) -> list[str]:
    """The keys of the networks that the template attaches to, each once."""
    own = workload.metadata.namespace
    nics = workload.spec.template.spec.network_interfaces
    return list(dict.fromkeys(f"{nic.network.namespace or own}/{nic.network.name}" for nic in nics))


def _networks_of_item(item: Item[Workload]) -> list[str]:
    try:
        return _networks(item.object)
    except msgspec.ValidationError:
        return []  # a server that does not know our kinds lets things through that cannot be read


def _templates(workload: Workload, waves: Waves, earlier: InstanceTemplate | None) -> dict[str, InstanceTemplate]:
    """The template that each deployment should have: the Workload's own, or the one that cities go back to."""
    newest = waves.status.revision
    chosen = {
        name: workload.spec.template if revision.number == newest else earlier
        for name, revision in waves.templates.items()
    }
    return {name: template for name, template in chosen.items() if template is not None}


def _kept(status: WorkloadStatus) -> set[str]:
    return {each.template for each in status.revisions}


def _is_complete(status: WorkloadStatus) -> bool:
    progress = find(status.conditions, "Progressing")
    return progress is not None and progress.reason == reasons.COMPLETE


def _taken(name: str, city: str, *, going: bool) -> Refusal:
    change = f"Delete WorkloadDeployment {name}, or rename the workload."
    return name_taken("WorkloadDeployment", name, going=going, where=city, change=change)
