"""The cgroups of a node's pods: one for all pods, one per QoS class, one per pod.

    <root>/kubepods                        everything allocatable
    <root>/kubepods/pod<uid>               a guaranteed pod
    <root>/kubepods/burstable/pod<uid>     weight: the sum of all burstable requests
    <root>/kubepods/besteffort/pod<uid>    minimum weight

A pod's group is created before its sandbox and removed after it; remaining processes are killed. Groups of unknown pods
are swept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.cgrouplimits import NONE, UNLIMITED, CgroupLimits, unlike
from tarmac.api.kubernetes.resourcenames import HUGE_PAGES
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.allocatable.weights import MIN_SHARES, shares
from tarmac.decide.amounts import CPU, MEMORY

_LEVELS: Final = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}
_PREFIX: Final = "pod"
_RETRY_DELAYS: Final = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # killed processes take a moment to exit
_log = log("cgroups")


class KubePods:
    """The pod cgroups of one node."""

    def __init__(self, hierarchy: Hierarchy, root: str, clock: Clock) -> None:
        self.top = f"{root.rstrip('/')}/kubepods"
        self._hierarchy = hierarchy
        self._clock = clock
        self._burstable: dict[str, int] = {}
        self._known: dict[str, CgroupLimits] = {}  # limits known to be set, by path

    def prepare(self) -> None:
        """Create the upper levels. Raises CgroupError."""
        self._hierarchy.make(self.top)
        self._hierarchy.widen(self.top)
        for level in ("/burstable", "/besteffort"):
            self._hierarchy.make(self.top + level)
            self._hierarchy.widen(self.top + level)
        self._hierarchy.limit(self.top + "/besteffort", CgroupLimits(shares=MIN_SHARES))
        level = f"{self.top}/burstable"
        for name in self._hierarchy.children(level):
            if name.startswith(_PREFIX):
                # Pods of an earlier agent count from the start: the weight of all burstable pods must not fall
                # meanwhile.
                weight = self._hierarchy.shares(f"{level}/{name}")
                # Rounded down: a millicore may be missing until the pod is counted again.
                self._burstable[name.removeprefix(_PREFIX)] = weight * 1000 // 1024
        self._weigh_burstable()

    def enforce(self, all_pods: Mapping[str, int], pids: int = NONE) -> None:
        """Set the limits for the sum of all pods. Raises CgroupError."""
        huge = {
            name.removeprefix(HUGE_PAGES): amount for name, amount in all_pods.items() if name.startswith(HUGE_PAGES)
        }
        limits = CgroupLimits(shares=shares(all_pods[CPU]), memory=all_pods[MEMORY], pids=pids, huge_pages=huge)
        self._hierarchy.limit(self.top, limits)

    async def create(self, allotment: PodAllotment) -> str:
        """Create the pod's cgroup with all limits except the CPU quota; return its path in the runtime's form."""
        path = self.path(allotment)
        wanted = allotment.limits
        # A cgroup that exists may have been limited by an earlier agent: only a new one has known limits.
        if self._hierarchy.make(path):
            self._known[path] = replace(UNLIMITED, period=wanted.period)
        known = self._known.get(path, CgroupLimits())
        self._limit(path, replace(wanted, quota=known.quota, period=known.period))
        self._count(allotment)
        return path

    async def update(self, allotment: PodAllotment) -> None:
        """Set all limits of the pod's existing cgroup, including the CPU quota. Raises CgroupError."""
        self._limit(self.path(allotment), allotment.limits)
        self._count(allotment)

    async def remove(self, uid: str) -> None:
        """Remove the pod's cgroup, killing processes still in it. Raises CgroupError if it stays in use."""
        # Before the removal, which may take seconds: the remaining pods must not keep the weight of this one.
        if self._burstable.pop(uid, 0):
            self._weigh_burstable()
        for level in _LEVELS.values():
            path = f"{self.top}{level}/{_PREFIX}{uid}"
            self._known.pop(path, None)
            if self._hierarchy.exists(path):
                await self._remove(path)

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove the cgroups of pods not in `live`; return their uids."""
        orphans = sorted(self.uids() - live)
        for uid in orphans:
            _log.info("cgroup of an unknown pod removed", pod=uid)
            try:
                await self.remove(uid)
            except CgroupError as error:
                _log.warning("cgroup cannot be removed", pod=uid, why=str(error))
        return orphans

    def uids(self) -> set[str]:
        """Return the uids of pods with a cgroup."""
        return set(self.paths())

    def paths(self) -> dict[str, str]:
        """Return the cgroups of pods by uid."""
        return {
            name.removeprefix(_PREFIX): f"{self.top}{level}/{name}"
            for level in _LEVELS.values()
            for name in self._hierarchy.children(self.top + level)
            if name.startswith(_PREFIX)
        }

    def find(self, uid: str) -> str:
        """Return the cgroup of a pod; empty without one."""
        found = (f"{self.top}{level}/{_PREFIX}{uid}" for level in _LEVELS.values())
        return next((path for path in found if self._hierarchy.exists(path)), "")

    def memory_used(self) -> int:
        """Return the working set of all pods."""
        return self._hierarchy.memory_used(self.top)

    async def remove_all(self) -> None:
        """Remove all pod cgroups and the processes in them."""
        await self._remove(self.top)

    def path(self, allotment: PodAllotment) -> str:
        """Return the path of the pod's cgroup in the runtime's form."""
        return f"{self.top}{_LEVELS[allotment.quality]}/{_PREFIX}{allotment.uid}"

    def _limit(self, path: str, wanted: CgroupLimits) -> None:
        """Write only limits that differ: each is a file."""
        # Dropped first: after a failed write the limits in force are unknown, and all are written again.
        known = self._known.pop(path, CgroupLimits())
        self._hierarchy.limit(path, unlike(wanted, known))
        self._known[path] = wanted

    def _count(self, allotment: PodAllotment) -> None:
        if self._burstable.get(allotment.uid, 0) != allotment.burstable:
            self._burstable[allotment.uid] = allotment.burstable
            self._weigh_burstable()

    def _weigh_burstable(self) -> None:
        self._hierarchy.limit(self.top + "/burstable", CgroupLimits(shares=shares(sum(self._burstable.values()))))

    async def _remove(self, path: str) -> None:
        # Repeated: a killed process takes a moment to exit, and may have forked just before.
        for delay in _RETRY_DELAYS:
            if delay:
                await self._clock.sleep(delay)
            # Tried before the kill: nearly always the processes have ended, and nothing is left to kill.
            if self._hierarchy.remove(path):
                return
            if killed := self._hierarchy.kill(path):
                _log.info("processes left in a cgroup killed", path=path, count=killed)
        raise CgroupError(f"{path}: still in use after {sum(_RETRY_DELAYS)} s")
