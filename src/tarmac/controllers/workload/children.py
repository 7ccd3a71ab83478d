"""Creates, updates and deletes the deployments of a Workload, according to its goal and its waves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.schema import Json
from tarmac.api.status import AlreadyExists, Conflict, Invalid
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informer
from tarmac.client.targets.typed import DEPLOYMENTS
from tarmac.controllers.nameconflict import name_taken
from tarmac.controllers.workload.workloadevents import announce_move, announce_return
from tarmac.controllers.writes import delete_same, in_batches
from tarmac.decide.derived.deployments import Child, changes, document
from tarmac.decide.derived.goal import WorkloadGoal
from tarmac.decide.verdict import Refusal


class DeploymentWriter:
    """The deployments of Workloads on the server."""

    def __init__(self, client: Client, known: Informer[WorkloadDeployment], recorder: Recorder, manager: str) -> None:
        self._resource = client.resource(DEPLOYMENTS)
        self._clock = client.clock
        self._known = known
        self._recorder = recorder
        self._manager = manager

    async def listed(self, workload: Workload) -> dict[str, WorkloadDeployment]:
        """Return the deployments from the server, bypassing the cache, by name."""
        own = workload.metadata
        # From the server: the cache may lack a child that the last pass has created.
        page = await self._resource.list(own.namespace, labels=f"{LABEL_WORKLOAD_UID}={own.uid}")
        return {each.metadata.name: each for each in page.items}

    async def remove(self, deployments: Iterable[WorkloadDeployment]) -> None:
        """Delete the deployments."""
        for deployment in deployments:
            if deployment.metadata.deletion_timestamp is None:
                await delete_same(self._resource, deployment.metadata)

    async def remove_orphans(
        self, workload: Workload, goal: WorkloadGoal, existing: Mapping[str, WorkloadDeployment]
    ) -> None:
        """Delete deployments that the goal does not contain."""
        for name, deployment in existing.items():
            if name not in goal.children and deployment.metadata.deletion_timestamp is None:
                await self.remove((deployment,))
                announce_return(self._recorder, workload, deployment, goal)

    async def ensure(
        self,
        workload: Workload,
        goal: WorkloadGoal,
        templates: Mapping[str, InstanceTemplate],
        existing: Mapping[str, WorkloadDeployment],
    ) -> tuple[dict[str, WorkloadDeployment], list[Refusal]]:
        """Create and update deployments.

        Return all of them afterwards, and refusals for those that cannot be created.
        """
        present = dict(existing)
        refusals: dict[str, Refusal] = {}

        def differs(name: str, child: Child) -> bool:
            known = existing.get(name)
            if known is None or known.metadata.deletion_timestamp is not None:
                return True
            return bool(changes(workload, child, known, templates.get(name)))

        async def ensure_one(name: str) -> None:
            result = await self._ensure_one(
                workload, name, goal.children[name], templates.get(name), existing.get(name)
            )
            if isinstance(result, Refusal):
                refusals[name] = result
            else:
                present[name] = result

        different = [name for name, child in goal.children.items() if differs(name, child)]
        await in_batches(ensure_one, different, self._clock)
        return present, [refusals[name] for name in goal.children if name in refusals]

    async def _ensure_one(
        self,
        workload: Workload,
        name: str,
        child: Child,
        template: InstanceTemplate | None,
        present: WorkloadDeployment | None,
    ) -> WorkloadDeployment | Refusal:
        """Create or update one deployment. Return the server's response, since the cache is behind that write."""
        namespace = workload.metadata.namespace
        if present is None:
            other = self._known.cache.item(f"{namespace}/{name}")
            if other is not None:
                return _name_taken(name, child.city, going=other.metadata.deletion_timestamp is not None)
            try:
                made = await self._resource.create(
                    document(workload, child, template or workload.spec.template), manager=self._manager
                )
            except AlreadyExists:  # the cache is behind
                present = await self._resource.get(name, namespace)
                # By uid: it may belong to an earlier Workload of the name.
                if present.spec.workload_ref.uid != workload.metadata.uid:
                    return _name_taken(name, child.city, going=present.metadata.deletion_timestamp is not None)
            else:
                # Only for a child that this call created: a repeated pass would announce the move again.
                announce_move(self._recorder, workload, child)
                return made
        if present.metadata.deletion_timestamp is not None:
            return _name_taken(name, child.city, going=True)
        patch = changes(workload, child, present, template)
        return await self._change(present, patch) if patch else present

    async def _change(self, present: WorkloadDeployment, patch: list[Json]) -> WorkloadDeployment:
        """Patch a deployment.

        Raises Conflict where the patch was made from an outdated copy and does not apply any more.
        """
        metadata = present.metadata
        try:
            return await self._resource.patch(
                metadata.name, patch, metadata.namespace, type="json", manager=self._manager
            )
        except Invalid as error:
            # Invalid has two causes: the wish is invalid, or its JSON patch was made for an older list. The version
            # tells.
            current = await self._resource.get(metadata.name, metadata.namespace)
            if current.metadata.resource_version == metadata.resource_version:
                raise
            raise Conflict(f"{metadata.name} has changed: {error}") from error


def _name_taken(name: str, city: str, *, going: bool) -> Refusal:
    change = f"Delete WorkloadDeployment {name}, or rename the workload."
    return name_taken("WorkloadDeployment", name, going=going, where=city, change=change)
