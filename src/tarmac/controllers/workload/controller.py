"""Keeps one WorkloadDeployment per placement and city, and the Workload's status up to date.

Deployments are found by the Workload's uid. A name that belongs to another object is reported as a refusal; a name that
is still being deleted is waited for. While a Network of the template does not exist, nothing is created or deleted:
running instances keep running. A new template reaches the cities in waves (`decide/rollout/waves.py`).

A full pass examines every deployment, so it is made only after a change that decisions depend on. Changes of counters
alone are added to the result of the last full pass (`rollups.py`), and written at most once a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import FINALIZER, LABEL_WORKLOAD_NAME, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload, WorkloadDeployment, WorkloadStatus
from tarmac.api.conditions import find
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter, TerminalError
from tarmac.client.envelope import is_newer
from tarmac.client.targets.typed import DEPLOYMENTS, LOCATIONS, NETWORKS, WORKLOADS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ownerlabels import named_by
from tarmac.controllers.places import Places
from tarmac.controllers.workload.children import DeploymentWriter
from tarmac.controllers.workload.deploymentcache import DeploymentsByWorkload
from tarmac.controllers.workload.progressclock import ProgressTimer
from tarmac.controllers.workload.revisions import Revisions
from tarmac.controllers.workload.rollups import PassDecisions, Rollup
from tarmac.controllers.workload.workloadevents import announce
from tarmac.controllers.writes import set_finalizers, write_status
from tarmac.decide import reasons
from tarmac.decide.addresses import overlap
from tarmac.decide.derived.goal import WorkloadGoal, goal_of
from tarmac.decide.derived.waves import rollout_facts
from tarmac.decide.placement import LocationView
from tarmac.decide.rollout import Revision, complete
from tarmac.decide.rollout.stored import history_now, records_of
from tarmac.decide.rollout.waves import Waves, waves
from tarmac.decide.rollup import workload_status
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-workload"
DEBOUNCE_SECONDS = 0.1
DEBOUNCE_SECONDS_EACH = 0.0002  # added per deployment, so that full passes take a small share of the loop at any size
REPORT_SECONDS = 1.0  # interval between two writes of counters
RETRY_SECONDS = 15.0  # for a taken name: its deletion triggers no pass
BY_NETWORK = "network"

_of_workload = named_by(LABEL_WORKLOAD_NAME)


@dataclass(slots=True)
class _LastPass:
    """The last full pass over a Workload, and the part of it that the status shows. Times are monotonic."""

    rollup: Rollup
    due: float | None = None  # when time alone requires another full pass
    settled: bool = False  # all decisions of the pass are written
    written: float = float("-inf")
    version: str = ""  # of the Workload that its status was last compared with
    reported: int = 0  # changes of the roll-up that the status contains

    def is_behind(self, workload: Workload) -> bool:
        """Return True if the status may have to change: deployments have reported, or the Workload was written."""
        return self.reported != self.rollup.changes or self.version != workload.metadata.resource_version


class WorkloadController:
    """Reconciles by the Workload's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._announces = context.settings.way_in
        self._recorder = context.recorder
        self._workloads = client.resource(WORKLOADS)
        self._known = informers.informer(WORKLOADS)
        self._known.add_index(BY_NETWORK, _networks_of_item)
        self._known_deployments = informers.informer(DEPLOYMENTS)
        self._own = DeploymentsByWorkload(self._known_deployments)
        self._writer = DeploymentWriter(client, self._known_deployments, self._recorder, MANAGER)
        self._revisions = Revisions(client, MANAGER)
        self._progress_timer = ProgressTimer(self._clock, self._known_deployments)
        locations = informers.informer(LOCATIONS)
        self._places = Places(locations)
        self._networks = informers.informer(NETWORKS)
        self._last_passes: dict[str, _LastPass] = {}  # by the Workload's key
        self._stale: set[str] = set()  # keys of Workloads with a change that decisions depend on
        self._controller = context.controller("workload", self.reconcile)
        self._controller.watches(self._known)
        for informer in (locations, self._networks, self._known_deployments):
            self._controller.awaits(informer)
        self._places.on_change(self._place_changed)
        self._networks.on_change(self._network_changed)
        self._known_deployments.on_change(self._deployment_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _place_changed(self, old: LocationView | None, new: LocationView | None) -> None:
        for key in self._known.cache.keys():  # noqa: SIM118 - not a dict
            self._request_full_pass(key)

    def _network_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        for user in self._known.indexed(BY_NETWORK, item.key):
            self._request_full_pass(user.key)

    def _deployment_changed(self, old: Item[WorkloadDeployment] | None, new: Item[WorkloadDeployment] | None) -> None:
        for key in {key for item in (old, new) if item is not None for key in _of_workload(item)}:
            last_pass = self._last_passes.get(key)
            if last_pass is None or new is None or not self._absorb(last_pass, new):
                self._request_full_pass(key)
                continue
            wait = last_pass.written + REPORT_SECONDS - self._clock.monotonic()
            self._controller.queue.add_after(key, max(wait, DEBOUNCE_SECONDS))

    def _absorb(self, last_pass: _LastPass, item: Item[WorkloadDeployment]) -> bool:
        uid = (item.metadata.labels or {}).get(LABEL_WORKLOAD_UID, "")
        deployment = self._own.of(uid).get(item.metadata.name)
        return deployment is not None and last_pass.rollup.absorb(deployment)

    def _request_full_pass(self, key: str) -> None:
        """Request a full pass. A pass in progress does not count, since it may have read already."""
        last_pass = self._last_passes.get(key)
        size = len(last_pass.rollup) if last_pass is not None else 0
        self._stale.add(key)
        self._controller.queue.add_after(key, DEBOUNCE_SECONDS + DEBOUNCE_SECONDS_EACH * size)

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Make one pass over one Workload."""
        try:
            workload = self._known.get(key)
        except msgspec.ValidationError as error:
            raise TerminalError(f"not a Workload that can be read: {error}") from error
        if workload is None or workload.metadata.deletion_timestamp is not None:
            self._last_passes.pop(key, None)
            self._stale.discard(key)
            if workload is not None:
                await self._finish(workload)
            return None
        # First, alone: children created without it would outlive a Workload that is deleted in between.
        if FINALIZER not in workload.metadata.finalizers:
            await set_finalizers(self._workloads, workload.metadata, [*workload.metadata.finalizers, FINALIZER])
            return None
        last_pass = self._last_passes.get(key)
        if last_pass is None or key in self._stale or not self._holds(last_pass, workload):
            last_pass = await self._full_pass(key, workload)
        elif last_pass.is_behind(workload):
            wait = last_pass.written + REPORT_SECONDS - self._clock.monotonic()
            if wait > 0:
                return RetryAfter(wait)
            if not await self._report(workload, last_pass):
                last_pass = await self._full_pass(key, workload)
        return self._next(last_pass)

    def _holds(self, last_pass: _LastPass, workload: Workload) -> bool:
        """Return True if only counters can have changed since the last full pass."""
        late = last_pass.due is not None and last_pass.due <= self._clock.monotonic()
        return last_pass.settled and not late and last_pass.rollup.fits(workload)

    def _next(self, last_pass: _LastPass) -> RetryAfter | None:
        if last_pass.due is None:
            return None
        return RetryAfter(max(last_pass.due - self._clock.monotonic(), DEBOUNCE_SECONDS))

    async def _full_pass(self, key: str, workload: Workload) -> _LastPass:
        """Make the full pass."""
        self._stale.discard(key)  # before any read: a change from here on requests another pass
        if key in self._last_passes:
            self._last_passes[key].settled = False  # a pass that fails is repeated
        existing = self._existing(workload)
        goal = self._goal(workload, existing)
        history = history_now(workload, self._clock.now())
        history, earlier = await self._revisions.restorable(workload, history)
        waves = self._waves(workload, history, goal, existing)
        if waves.under_way and waves.changing:
            # The cache may be behind our last writes to the cities, and a wave must not begin while another is in
            # progress.
            existing = await self._writer.listed(workload)
            waves = self._waves(workload, history, goal, existing)
        goal.wake_in(waves.again)
        blocks = self._unusable_networks(workload)
        # While a Network is missing nothing is deleted either: running instances keep running.
        if not blocks:
            await self._writer.remove_orphans(workload, goal, existing)
            templates = _templates(workload, waves, earlier)
            existing, blocks = await self._writer.ensure(workload, goal, templates, existing)
        goal.wake_in(RETRY_SECONDS if blocks else None)
        due = self._clock.monotonic() + goal.again if goal.again is not None else None
        decided = PassDecisions(workload, history, goal, waves, blocks)
        last_pass = self._last_passes[key] = _LastPass(Rollup(decided, self._newest(workload, existing)), due)
        await self._explain(workload, last_pass)
        # Last: an exception above leaves it False, and the full pass is repeated.
        last_pass.settled = True
        return last_pass

    async def _report(self, workload: Workload, last_pass: _LastPass) -> bool:
        """Write the counters reported since the last full pass. Return False when they require another full pass."""
        decided, known = last_pass.rollup.decided, workload.status
        changes, status = last_pass.rollup.changes, self._status(workload, last_pass)
        if _is_complete(status) and decided.waves.settled and decided.history[-1].completed is None:
            return False
        status.revisions = known.revisions if known is not None else []
        await self._write(workload, status, last_pass, changes)
        return True

    async def _explain(self, workload: Workload, last_pass: _LastPass) -> None:
        """Write the whole status, and store the templates that it names."""
        decided, known = last_pass.rollup.decided, workload.status
        changes, status = last_pass.rollup.changes, self._status(workload, last_pass)
        history = decided.history
        if _is_complete(status) and decided.waves.settled:
            history = complete(history, self._clock.now())
        if workload.metadata.deletion_timestamp is None:
            # Before the status names it: a crash in between leaves a template too many, and loses none.
            history = await self._revisions.keep(workload, history)
        status.revisions = records_of(history)
        written = await self._write(workload, status, last_pass, changes)
        if written and known is not None and known.revisions and _template_names(known) != _template_names(status):
            # After the status: a template that the stored status still names must exist, or a rollback fails.
            await self._revisions.prune(workload, history)

    def _status(self, workload: Workload, last_pass: _LastPass) -> WorkloadStatus:
        return workload_status(
            last_pass.rollup.facts(workload, announces=self._announces), workload.status, self._clock.now()
        )

    async def _write(self, workload: Workload, status: WorkloadStatus, last_pass: _LastPass, changes: int) -> bool:
        """Write the status if it differs; return True if it did.

        `changes` are the roll-up's changes that it contains.
        """
        written = await write_status(self._workloads, workload.metadata, workload.status, status, MANAGER)
        newest = workload if written is None else written
        last_pass.version, last_pass.reported = newest.metadata.resource_version, changes
        if written is not None:
            last_pass.written = self._clock.monotonic()
            announce(self._recorder, workload, workload.status, status)
        return written is not None

    def _existing(self, workload: Workload) -> dict[str, WorkloadDeployment]:
        return dict(sorted(self._own.of(workload.metadata.uid).items()))

    def _newest(self, workload: Workload, seen: Mapping[str, WorkloadDeployment]) -> dict[str, WorkloadDeployment]:
        """Return the deployments seen, or the cached ones where newer.

        Reports arrive while deployments are being written.
        """
        found = dict(seen)
        for name, known in self._own.of(workload.metadata.uid).items():
            other = found.get(name)
            if other is None or is_newer(known.metadata.resource_version, other.metadata.resource_version):
                found[name] = known
        return found

    def _goal(self, workload: Workload, existing: Mapping[str, WorkloadDeployment]) -> WorkloadGoal:
        everywhere = self._known_deployments.cache.items
        return goal_of(
            workload,
            self._places.all,
            existing.values(),
            self._clock.now(),
            lambda: (item.object for item in everywhere()),
        )

    def _waves(
        self,
        workload: Workload,
        history: Sequence[Revision],
        goal: WorkloadGoal,
        existing: Mapping[str, WorkloadDeployment],
    ) -> Waves:
        now, places = self._clock.now(), self._places.all
        facts = rollout_facts(workload, history, goal, places, existing.values(), now, self._progress_timer.observed)
        return waves(facts, now)

    def _unusable_networks(self, workload: Workload) -> list[Refusal]:
        missing = [key for key in _networks(workload) if key not in self._networks.cache]
        if not missing:
            interfaces = workload.spec.template.spec.network_interfaces
            clash = overlap(workload.metadata.namespace, interfaces, self._networks.get)
            return [clash.refusal] if clash is not None else []
        names = ", ".join(missing)
        return [Refusal(reasons.NETWORK_NOT_FOUND, f"Unable to find networks: {names}", change=f"Create {names}.")]

    async def _finish(self, workload: Workload) -> None:
        """Release a deleted Workload once all its deployments are gone.

        The server is asked, since the cache may be behind.
        """
        metadata = workload.metadata
        if FINALIZER not in metadata.finalizers:
            return
        existing = self._existing(workload) or await self._writer.listed(workload)
        await self._writer.remove(existing.values())
        if existing:
            goal, history = self._goal(workload, existing), history_now(workload, self._clock.now())
            decided = PassDecisions(workload, history, goal, self._waves(workload, history, goal, existing), ())
            await self._explain(workload, _LastPass(Rollup(decided, existing)))
        else:
            kept = [each for each in metadata.finalizers if each != FINALIZER]
            await set_finalizers(self._workloads, metadata, kept)


def _networks(workload: Workload) -> list[str]:
    """Return the keys of the template's Networks, each once."""
    own = workload.metadata.namespace
    nics = workload.spec.template.spec.network_interfaces
    return list(dict.fromkeys(f"{nic.network.namespace or own}/{nic.network.name}" for nic in nics))


def _networks_of_item(item: Item[Workload]) -> list[str]:
    try:
        return _networks(item.object)
    except msgspec.ValidationError:
        return []  # a server without our kinds does not validate them, so some cannot be decoded


def _templates(workload: Workload, waves: Waves, earlier: InstanceTemplate | None) -> dict[str, InstanceTemplate]:
    """Return the template for each deployment: the Workload's own, or the one that cities roll back to."""
    newest = waves.status.revision
    chosen = {
        name: workload.spec.template if revision.number == newest else earlier
        for name, revision in waves.templates.items()
    }
    return {name: template for name, template in chosen.items() if template is not None}


def _template_names(status: WorkloadStatus) -> set[str]:
    return {each.template for each in status.revisions}


def _is_complete(status: WorkloadStatus) -> bool:
    progress = find(status.conditions, "Progressing")
    return progress is not None and progress.reason == reasons.COMPLETE
