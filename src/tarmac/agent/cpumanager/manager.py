"""Assignments of exclusive CPUs: made at admission, stored in the file, freed at the end of the pod.

An assignment alone changes nothing in the kernel: `placement` applies it before a process relies on it. A change is in
the file before it takes effect. A freed CPU may be assigned to the next pod at once, because by then no process of the
previous pod is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

import msgspec

from tarmac.agent.cpumanager.statefile import Assignments, StateFile
from tarmac.agent.model.allotment import PodAllotment, Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.decide.allocatable.podentries import CPUS_ANNOTATION
from tarmac.decide.amounts import CPU
from tarmac.decide.cpus.assigning import NotEnough, assign, refused
from tarmac.decide.cpus.pools import shared_pool
from tarmac.decide.cpus.topology import Topology
from tarmac.decide.exclusivecpus import exclusive_cpus

INFEASIBLE = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_log = log("processors")


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The CPUs of the host and the reserved ones. `strict`: the shared pool excludes these."""

    topology: Topology
    reserved: CPUSet
    strict: bool = False


class CPUManager:
    """Implements `NodeResource`. `changed` is set when freed CPUs may be added to the shared pool.

    Assigned CPUs need no such signal: the container that gets them has them vacated before it starts.
    """

    def __init__(self, machine: NodeCpus, file: StateFile, assignments: Assignments | None) -> None:
        self.begins = assignments is None
        """True if no agent with this policy ran here before."""
        self.changed = asyncio.Event()
        self.changes = 0
        self.shared = CPUSet()
        """The CPUs of containers without exclusive ones."""
        self._machine = machine
        self._file = file
        self._assigned = assignments or {}
        self._specs: dict[str, JsonObject] = {}  # of existing pods, as last seen
        self._requests = self._errors = 0
        self._recount()

    # --- node resource ----------------------------------------------------------------------------------------------

    def admit(self, pod: AgentPod) -> Refusal | None:
        """Assign CPUs to a new pod. A pod admitted before keeps its CPUs."""
        self._specs[pod.uid] = pod.spec
        if pod.uid in self._assigned or not exclusive_cpus(pod.spec):
            return None
        try:
            self._assign(pod.uid, pod.spec)
        except (NotEnough, OSError) as error:
            return refused(error)
        return None

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        """Add exclusive CPUs to the allotment. The shared pool changes over time, so the runtime gets it at start."""
        self._specs[pod.uid] = pod.spec
        own = self._assigned.get(pod.uid) or {}
        containers = {
            name: replace(each, cpus=str(own[name])) if name in own else each
            for name, each in allotment.containers.items()
        }
        return replace(allotment, containers=containers) if own else allotment

    def release(self, uid: str) -> None:
        """Free the CPUs of a pod without processes."""
        self._specs.pop(uid, None)
        if self._assigned.pop(uid, None) is None:
            return
        self._recount()
        try:
            self.keep()
        except OSError as error:
            # The file still lists the assignment; the next agent drops it, since the pod is gone.
            _log.warning("freed CPUs cannot be recorded", pod=uid, error=str(error))
        # After the recount: the placement that this wakes reads the new shared pool.
        self.changed.set()

    def keep(self) -> None:
        """Write the policy and all assignments to the file, even if there are none. Raises OSError.

        An agent started later with a different policy needs the file to undo this one.
        """
        self._file.write(self.shared, self._assigned)

    def claim(self, uid: str) -> None:
        """Assign CPUs to a pod older than the policy when one of its containers is created anew."""
        spec = self._specs.get(uid)
        if uid in self._assigned or spec is None or not exclusive_cpus(spec):
            return
        try:
            self._assign(uid, spec)
        except (NotEnough, OSError) as error:
            _log.info("pod stays on shared CPUs", pod=uid, why=str(error))

    def postponed(self, current: AgentPod, requested: AgentPod) -> Postponed | None:
        """Reject a change of CPU requests: CPUs are assigned once."""
        return cpus_postponed(current, requested)

    def forget(self, live: Set[str]) -> None:
        """Free the CPUs of pods that no longer exist."""
        # `release` changes the assignments: the difference is a set of its own.
        for uid in self._assigned.keys() - live:
            _log.info("CPUs of a removed pod freed", pod=uid)
            self.release(uid)

    # --- queries ----------------------------------------------------------------------------------------------------

    def own(self, uid: str) -> CPUSet:
        """Return all exclusive CPUs of a pod."""
        return CPUSet(cpu for cpus in self._assigned.get(uid, {}).values() for cpu in cpus)

    def of_container(self, uid: str, name: str) -> CPUSet:
        """Return the CPUs of a container, exclusive or shared."""
        return self._assigned.get(uid, {}).get(name) or self.shared

    def of_pod(self, uid: str) -> CPUSet | None:
        """Return the CPUs of all processes of a pod. None if its spec is not known yet."""
        own = self._assigned.get(uid)
        if own is None:
            return self.shared
        spec = self._specs.get(uid)
        if spec is None:
            return None
        every = [each["name"] for field in _CONTAINERS for each in spec.get(field) or ()]
        return self.own(uid) if all(name in own for name in every) else self.own(uid) | self.shared

    def notes(self, uid: str) -> dict[str, str]:
        """Return the annotations of the pod."""
        own = self._assigned.get(uid)
        shown = {name: str(cpus) for name, cpus in (own or {}).items()}
        return {CPUS_ANNOTATION: msgspec.json.encode(shown).decode()} if own else {}

    def metrics(self) -> Iterator[Sample]:
        """Yield metrics under kubelet's names."""
        yield "kubelet_cpu_manager_pinning_requests_total", "counter", UNLABELLED, self._requests
        yield "kubelet_cpu_manager_pinning_errors_total", "counter", UNLABELLED, self._errors
        yield "kubelet_cpu_manager_shared_pool_size_millicores", "gauge", UNLABELLED, 1000 * len(self.shared)
        yield "kubelet_cpu_manager_exclusive_cpu_allocation_count", "gauge", UNLABELLED, len(self._taken)

    def _assign(self, uid: str, spec: JsonObject) -> None:
        """Assign and persist CPUs. Raises NotEnough, OSError; then nothing is assigned."""
        self._requests += 1
        free = self._machine.topology.cpus - self._machine.reserved - self._taken
        try:
            self._assigned[uid] = assign(self._machine.topology, free, spec)
            self._recount()
            # In the file before a process relies on it: an agent killed in between must not assign the CPUs again.
            self.keep()
        except (NotEnough, OSError):
            self._errors += 1
            self._assigned.pop(uid, None)
            self._recount()
            raise
        _log.info("CPUs assigned", pod=uid, cpus=str(self.own(uid)), shared=str(self.shared))

    def _recount(self) -> None:
        """Recompute the assigned CPUs and the shared pool; `changes` counts the recomputations."""
        self._taken = CPUSet(cpu for own in self._assigned.values() for cpus in own.values() for cpu in cpus)
        self.shared = shared_pool(self._machine.topology, self._machine.reserved, self._taken, self._machine.strict)
        self.changes += 1


def cpus_postponed(current: AgentPod, requested: AgentPod) -> Postponed | None:
    """The processors of a container are chosen once: what it asks for cannot change."""
    if qos_class(current.spec) != "Guaranteed" or _cpu(current) == _cpu(requested):
        return None
    return Postponed("Infeasible", INFEASIBLE)


def _cpu(pod: AgentPod) -> dict[str, tuple[str | None, str | None]]:
    """Return the CPU request and limit of each container, as written."""
    resources = {each["name"]: each.get("resources") or {} for each in pod.every_container()}
    return {
        name: ((each.get("requests") or {}).get(CPU), (each.get("limits") or {}).get(CPU))
        for name, each in resources.items()
    }
