"""Applies CPU assignments to the cgroups of pods and verifies them.

Cgroups are written directly. An update through the runtime would start a program for each container, which is slow for
many, and would restore other limits that the runtime remembers. A pod's cgroup has the union of its containers' CPUs: a
container started outside of it fails to start, and a sandbox with its own kernel, with all processes in one cgroup, is
confined from its first moment.

CPUs are vacated before a process with exclusive ones starts (`vacate`):

1. starts in progress that may use these CPUs complete;
2. all pods are placed on their CPUs, and later starts use the new pool;
3. no process of any other pod is allowed to run on these CPUs any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Set
from contextlib import contextmanager

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cpumanager.manager import CPUManager
from tarmac.base.clock import Clock
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.base.tasks import first
from tarmac.runtimes.interface import Runtime, RuntimeFault
from tarmac.runtimes.labels import POD_UID

_PREFIX = "crio-"  # prefix of the cgroup names of one runtime
_log = log("processors")


class CpuPlacer:
    """Places processes on their CPUs. `runtime` is only used to list containers."""

    def __init__(
        self, cpus: CPUManager, hierarchy: Hierarchy, groups: KubePods, runtime: Runtime, clock: Clock, period: float
    ) -> None:
        self._cpus = cpus
        self._hierarchy = hierarchy
        self._groups = groups
        self._runtime = runtime
        self._clock = clock
        self._period = period
        self._names: dict[str, tuple[str, str]] = {}  # pod uid and name of each container, by id
        self._beginning: dict[object, tuple[str, CPUSet]] = {}  # pod uid and CPUs of each start in progress
        self._begun = asyncio.Event()
        self._refreshed_at: float | None = None
        self._vacated: set[str] = set()  # pods whose CPUs are vacated

    async def run(self, known: Callable[[], Set[str] | None]) -> None:
        """Compare and correct, periodically and after changes.

        `known` returns all pods, or None while they are unknown.
        """
        while True:
            # Before the placement: a change during it starts another pass.
            self._cpus.changed.clear()
            try:
                await self._refresh_if_due()
                self._place_all()
            except RuntimeFault as fault:
                _log.debug("containers cannot be listed", why=str(fault))
            if (pods := known()) is not None:
                # An unknown pod may still have processes: its cleanup frees its CPUs.
                self._cpus.forget(pods | self._groups.uids())
            await first(self._clock.sleep(self._period), self._cpus.changed.wait())

    def add_container(self, id: str, uid: str, name: str) -> None:
        """Record a created container."""
        self._names[id] = uid, name

    def remove_container(self, id: str) -> None:
        """Forget a removed container."""
        self._names.pop(id, None)

    async def owner_of(self, id: str) -> tuple[str, str]:
        """Return the pod uid and the name of a container. Raises RuntimeFault."""
        if id not in self._names:
            found = await self._runtime.container(id)
            self._names[id] = found.labels.get(POD_UID, ""), found.name
        return self._names[id]

    async def _refresh(self) -> None:
        """List the containers, to find those of earlier agents. Raises RuntimeFault."""
        known = set(self._names)
        listed = {each.id: (each.labels.get(POD_UID, ""), each.name) for each in await self._runtime.containers()}
        # Keep containers created while the list was in flight: they are missing in it.
        self._names = {one: each for one, each in self._names.items() if one in listed or one not in known} | listed
        self._refreshed_at = self._clock.monotonic()

    async def _refresh_if_due(self) -> None:
        if self._refreshed_at is None or self._clock.monotonic() - self._refreshed_at >= self._period:
            await self._refresh()

    def _place_all(self) -> None:
        """Place all pods on their CPUs."""
        busy = {uid for uid, _ in self._beginning.values()}
        for uid, path in self._groups.paths().items():
            # A pod with a start in progress is placed by that start: shrinking a cgroup while the runtime creates one
            # inside it would fail one of the two.
            if uid not in busy:
                try:
                    self._place(uid, path)
                except CgroupError as error:
                    _log.warning("pod cannot be placed on its CPUs", pod=uid, why=str(error))
        self._vacated = {uid for uid in self._vacated if self._cpus.own(uid)}

    async def vacate(self, uid: str) -> None:
        """Return once no other pod runs, or will run, on the pod's exclusive CPUs. Raises RuntimeFault."""
        own = self._cpus.own(uid)
        if not own or uid in self._vacated:
            return
        # A start in progress was configured with these CPUs and would create its process there after the check below.
        while any(other != uid and cpus & own for other, cpus in self._beginning.values()):
            # Cleared before the wait, without an await since the check: an end in between is not missed.
            self._begun.clear()
            await self._begun.wait()
        # Containers of an earlier agent are not known yet: they could run on these CPUs unseen.
        if self._refreshed_at is None:
            await self._refresh()
        self._place_all()
        # In a thread: a pod may have thousands of processes, and each is read.
        if left := await asyncio.to_thread(self._others_on, uid, own):
            raise RuntimeFault(f"CPUs {own} are not free yet: {left} still runs there")
        # Only after the check: further containers of this pod start without one.
        self._vacated.add(uid)

    @contextmanager
    def beginning(self, uid: str, cpus: CPUSet, path: str = "") -> Generator[None]:
        """Mark a start in a pod on these CPUs as in progress. Raises RuntimeFault."""
        mark, before = object(), self._cpus.changes
        # Marked before the placement: a pass of another pod must not shrink this cgroup from here on.
        self._beginning[mark] = uid, cpus
        try:
            self._place_or_fail(uid, path)
            yield
        finally:
            # Also when the start fails: `vacate` of other pods waits for it.
            del self._beginning[mark]
            self._begun.set()
            if self._cpus.changes != before:
                self._cpus.changed.set()  # changes meanwhile were not applied to this pod

    def _place_or_fail(self, uid: str, path: str) -> None:
        try:
            if path:
                self._hierarchy.make(path)  # a handler's test has no cgroup yet
            if path := path or self._groups.find(uid):
                self._place(uid, path)
        except CgroupError as error:
            raise RuntimeFault(f"processors of the pod not set: {error}") from error

    def _place(self, uid: str, path: str) -> None:
        together = self._cpus.of_pod(uid)
        if together is None:
            return  # a pod of an earlier agent that is not adopted yet: its placement stays as it is
        inner = {one: self._cpus.of_container(uid, name) for one, (pod, name) in self._names.items() if pod == uid}
        prefixed = {_PREFIX + one: cpus for one, cpus in inner.items()}
        self._hierarchy.pin(path, together, {**inner, **prefixed})

    def _others_on(self, uid: str, own: CPUSet) -> str:
        """Return a different pod that has a process on these CPUs; empty if there is none."""
        for other, path in self._groups.paths().items():
            if other != uid and self._hierarchy.allowed(path) & own:
                return f"pod {other}"
        return ""
