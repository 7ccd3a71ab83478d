"""Who has which processors to himself: chosen at admission, kept in the file, given back at the end of the pod.

What is said here is not yet so in the kernel: `placement` sees to that, before a process relies on it. A change is in
the file before anybody acts on it. A processor that is given back may be given to the next pod at once, because by then
no process of the last one is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

import msgspec

from tarmac.agent.model.allotment import PodAllotment, Postponed, Refusal
from tarmac.agent.model.pod import Pod
from tarmac.agent.processors.state import Assignments, StateFile
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.decide.allocatable.podentries import CPUS_ANNOTATION
from tarmac.decide.processors.assigning import NotEnough, assign, refused
from tarmac.decide.processors.exclusive import exclusive_cpus
from tarmac.decide.processors.pools import shared_pool
from tarmac.decide.processors.topology import Topology
from tarmac.decide.scheduling.amounts import CPU

INFEASIBLE = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_log = log("processors")


@dataclass(frozen=True, slots=True)
class Processors:
    """Those of the machine, which of them are reserved, and whether the others may run on these."""

    topology: Topology
    reserved: CPUSet
    strict: bool = False


class CPUManager:
    """Implements `NodeResource`. `changed` is set when others may use what is free again.

    That others have to leave is not told: who gets their processors has them leave before it begins.
    """

    def __init__(self, machine: Processors, file: StateFile, assignments: Assignments | None) -> None:
        self.begins = assignments is None
        """No agent with this policy was here before."""
        self.changed = asyncio.Event()
        self.changes = 0
        self.shared = CPUSet()
        """What containers without processors of their own run on."""
        self._machine = machine
        self._file = file
        self._assigned = assignments or {}
        self._specs: dict[str, JsonObject] = {}  # of pods that there are, as they were last seen
        self._requests = self._errors = 0
        self._recount()

    # --- as a resource of the node ----------------------------------------------------------------------------------

    def admit(self, pod: Pod) -> Refusal | None:
        """Choose the processors of a new pod. One that was admitted before keeps what it has."""
        self._specs[pod.uid] = pod.spec
        if pod.uid in self._assigned or not exclusive_cpus(pod.spec):
            return None
        try:
            self._assign(pod.uid, pod.spec)
        except (NotEnough, OSError) as error:
            return refused(error)
        return None

    def extend(self, pod: Pod, allotment: PodAllotment) -> PodAllotment:
        """With what containers have to themselves; what the others share changes, and is told to the runtime late."""
        self._specs[pod.uid] = pod.spec
        own = self._assigned.get(pod.uid) or {}
        containers = {
            name: replace(each, cpus=str(own[name])) if name in own else each
            for name, each in allotment.containers.items()
        }
        return replace(allotment, containers=containers) if own else allotment

    def release(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self._specs.pop(uid, None)
        if self._assigned.pop(uid, None) is None:
            return
        self._recount()
        try:
            self.keep()
        except OSError as error:
            # The file says that the pod still has them: the next agent forgets that, as the pod is gone.
            _log.warning("that processors are free again is not kept", pod=uid, error=str(error))
        self.changed.set()

    def keep(self) -> None:
        """Have the file say that there is this policy, whoever has anything: the next agent may have another one.

        Raises OSError.
        """
        self._file.write(self.shared, self._assigned)

    def claim(self, uid: str) -> None:
        """A container of the pod begins anew: if the pod came before the policy, it gets its processors now."""
        spec = self._specs.get(uid)
        if uid in self._assigned or spec is None or not exclusive_cpus(spec):
            return
        try:
            self._assign(uid, spec)
        except (NotEnough, OSError) as error:
            _log.info("a pod stays on shared processors", pod=uid, why=str(error))

    def postponed(self, has: Pod, asks: Pod) -> Postponed | None:
        """The processors of a container are chosen once: what it asks for cannot change."""
        if qos_class(has.spec) != "Guaranteed" or _cpu(has) == _cpu(asks):
            return None
        return Postponed("Infeasible", INFEASIBLE)

    def forget(self, live: Set[str]) -> None:
        """Give back what pods have that are not there any more."""
        for uid in self._assigned.keys() - live:
            _log.info("processors of a pod that is gone are free", pod=uid)
            self.release(uid)

    # --- what others ask --------------------------------------------------------------------------------------------

    def own(self, uid: str) -> CPUSet:
        """The processors that containers of a pod have to themselves."""
        return CPUSet(cpu for cpus in self._assigned.get(uid, {}).values() for cpu in cpus)

    def of_container(self, uid: str, name: str) -> CPUSet:
        """What a container runs on."""
        return self._assigned.get(uid, {}).get(name) or self.shared

    def of_pod(self, uid: str) -> CPUSet | None:
        """What all processes of a pod run on, together. None: it is not known yet whether all have their own."""
        own = self._assigned.get(uid)
        if own is None:
            return self.shared
        spec = self._specs.get(uid)
        if spec is None:
            return None
        every = [each["name"] for field in _CONTAINERS for each in spec.get(field) or ()]
        return self.own(uid) if all(name in own for name in every) else self.own(uid) | self.shared

    def notes(self, uid: str) -> dict[str, str]:
        """What the pod is annotated with."""
        own = self._assigned.get(uid)
        shown = {name: str(cpus) for name, cpus in (own or {}).items()}
        return {CPUS_ANNOTATION: msgspec.json.encode(shown).decode()} if own else {}

    def metrics(self) -> Iterator[Sample]:
        """Under kubelet's names."""
        yield "kubelet_cpu_manager_pinning_requests_total", "counter", UNLABELLED, self._requests
        yield "kubelet_cpu_manager_pinning_errors_total", "counter", UNLABELLED, self._errors
        yield "kubelet_cpu_manager_shared_pool_size_millicores", "gauge", UNLABELLED, 1000 * len(self.shared)
        yield "kubelet_cpu_manager_exclusive_cpu_allocation_count", "gauge", UNLABELLED, len(self._taken)

    def _assign(self, uid: str, spec: JsonObject) -> None:
        """Raises NotEnough, OSError; nothing is assigned then."""
        self._requests += 1
        free = self._machine.topology.cpus - self._machine.reserved - self._taken
        try:
            self._assigned[uid] = assign(self._machine.topology, free, spec)
            self._recount()
            self.keep()
        except (NotEnough, OSError):
            self._errors += 1
            self._assigned.pop(uid, None)
            self._recount()
            raise
        _log.info("processors are assigned", pod=uid, cpus=str(self.own(uid)), shared=str(self.shared))

    def _recount(self) -> None:
        """What is taken, and what all others share; `changes` tells that it may be something else."""
        self._taken = CPUSet(cpu for own in self._assigned.values() for cpus in own.values() for cpu in cpus)
        self.shared = shared_pool(self._machine.topology, self._machine.reserved, self._taken, self._machine.strict)
        self.changes += 1


def _cpu(pod: Pod) -> dict[str, tuple[str | None, str | None]]:
    """What each container asks for, as it is written."""
    resources = {each["name"]: each.get("resources") or {} for each in pod.every_container()}
    return {
        name: ((each.get("requests") or {}).get(CPU), (each.get("limits") or {}).get(CPU))
        for name, each in resources.items()
    }
