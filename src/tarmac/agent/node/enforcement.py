"""Limits on the cgroup above all pods, and on the reserved cgroups, as configured.

The kernel may reject a limit below the current usage: that is reported as an event and retried every minute, until
evictions have made room. A reserved cgroup gets all limits, or, if it is listed as compressible, only its CPU weight.
Such a cgroup belongs to the administrator: the agent never creates one, and does not start if a configured one is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.agent.node.sizes import NodeSizes
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.eventrecorder import EventType
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.allocatable.reservations import PID, Reservations
from tarmac.decide.allocatable.weights import shares
from tarmac.decide.amounts import CPU, MEMORY, Amounts, shown

_RETRY_INTERVAL = 60.0
_log = log("cgroups")


@dataclass(frozen=True, slots=True)
class ReservedGroup:
    """A reserved cgroup: `pool` is System or Kube."""

    pool: str
    path: str
    limits: CgroupLimits


def reserved_groups(kubelet: KubeletConfiguration, reservations: Reservations) -> Iterator[ReservedGroup]:
    """Yield the reserved cgroups to limit."""
    for pool, path, reserved in (
        ("system", kubelet.system_reserved_cgroup, reservations.system),
        ("kube", kubelet.kube_reserved_cgroup, reservations.kube),
    ):
        amounts = {resource: each.amount for resource, each in reserved.items()}
        weight = shares(amounts[CPU]) if CPU in amounts else None
        if f"{pool}-reserved" in kubelet.enforce_node_allocatable:
            limits = CgroupLimits(shares=weight, memory=amounts.get(MEMORY), pids=amounts.get(PID))
            yield ReservedGroup(pool.title(), path, limits)
        elif f"{pool}-reserved-compressible" in kubelet.enforce_node_allocatable:
            yield ReservedGroup(pool.title(), path, CgroupLimits(shares=weight))


def check_reserved_groups(hierarchy: Hierarchy, kubelet: KubeletConfiguration, reservations: Reservations) -> None:
    """Raises BadConfig if one does not exist."""
    for each in reserved_groups(kubelet, reservations):
        if not hierarchy.exists(each.path):
            raise BadConfig(f"{_failed(each)}: {each.path!r} cgroup does not exist; make it, or leave it out")


class Enforcement:
    """Applies the limits and reports the result. `record_event` emits an event of the node."""

    def __init__(
        self,
        hierarchy: Hierarchy,
        groups: KubePods,
        kubelet: KubeletConfiguration,
        sizes: NodeSizes,
        record_event: Callable[[EventType, str, str], None],
        clock: Clock,
    ) -> None:
        self._hierarchy = hierarchy
        self._groups = groups
        self._kubelet = kubelet
        self._sizes = sizes
        self._record_event = record_event
        self._clock = clock
        self._enforced = False

    def once(self) -> None:
        """Try once, and report the result."""
        try:
            for done in self.apply():
                self._record_event("Normal", "NodeAllocatableEnforced", done)
            self._enforced = True
            _log.info(
                "node allocatable limits applied",
                **{name: shown(name, self._for_pods[name]) for name in (CPU, MEMORY)},
                pids=self._sizes.pids,
                cpu_oversubscription=three_decimals(self._sizes.reservations.oversubscription),
            )
        except CgroupError as error:
            _log.warning("node allocatable limits cannot be applied, will retry", why=str(error))
            self._record_event("Warning", "FailedNodeAllocatableEnforcement", str(error))

    async def run(self) -> None:
        """Retry until it succeeds; then wait until cancelled."""
        while True:
            await self._clock.sleep(_RETRY_INTERVAL)
            if not self._enforced:
                self.once()

    def apply(self) -> list[str]:
        """Apply every limit once; return messages about the changes. Raises CgroupError."""
        # The pods first: a reserved cgroup that cannot be limited must not leave them without limits.
        self._limit_pods()
        done = ["Updated Node Allocatable limit across pods"]
        for each in reserved_groups(self._kubelet, self._sizes.reservations):
            try:
                self._hierarchy.limit(each.path, each.limits)
            except CgroupError as error:
                raise CgroupError(f"{_failed(each)}: {error}") from error
            done.append(f"Updated limits on {each.pool.lower()} reserved cgroup {each.path}")
        return done

    @property
    def _for_pods(self) -> Amounts:
        # Without enforcement pods get the full capacity, set explicitly: the default weight is that of one processor.
        enforced = "pods" in self._kubelet.enforce_node_allocatable
        return self._sizes.enforced if enforced else self._sizes.capacity

    def _limit_pods(self) -> None:
        try:
            self._groups.enforce(self._for_pods, self._sizes.pids)
        except CgroupError as error:
            raise CgroupError(f'Failed to update Node Allocatable Limits "{self._groups.top}": {error}') from error


def _failed(group: ReservedGroup) -> str:
    return f'Failed to enforce {group.pool} Reserved Cgroup Limits on "{group.path}"'
