"""What a node stands on: the machine, its control groups and its container runtime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.cgroups.hierarchy import Hierarchy, mounted
from tarmac.agent.cgroups.pods import KubePods
from tarmac.agent.config.reading import BadConfig
from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.node.machine import Machine, machine
from tarmac.agent.node.observer import node_capacity
from tarmac.agent.stats.machine import MachineStats
from tarmac.base.clock import Clock
from tarmac.decide.allocatable.reservations import PID, enforced, objections, processes_for_pods
from tarmac.decide.scheduling.amounts import MEMORY, Amounts
from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.interface import Runtime
from tarmac.runtimes.parts import PartMissing, find_parts
from tarmac.runtimes.proving import Proof, prove_handlers
from tarmac.runtimes.routed import RoutedRuntime


@dataclass(frozen=True, slots=True)
class Machinery:
    """The machine and what runs on it."""

    machine: Machine
    capacity: Amounts
    enforced: Amounts
    cgroups: KubePods
    allocator: Allocator
    stats: MachineStats
    runtime: Runtime


def machinery(config: AgentConfig, clock: Clock) -> Machinery:
    """Look at the machine and make the pods' cgroups. Raises BadConfig, CgroupError."""
    here = machine()
    capacity = node_capacity(config, here)
    hierarchy = mounted()
    stats = MachineStats(lambda: _whole_machine(hierarchy))
    most, _ = stats.processes()
    if findings := objections({**capacity, PID: most}, config.reservations):
        raise BadConfig(f"invalid Node Allocatable configuration. {' '.join(findings)}")
    for_pods = enforced(capacity, config.reservations)
    cgroups = KubePods(hierarchy, config.cgroup_root, clock)
    allotments = AllocationSettings(
        memory_capacity=capacity[MEMORY],
        pids=config.kubelet.pod_pids_limit,
        enforce_cpu=config.kubelet.cpu_cfs_quota,
        period=round(config.kubelet.cpu_cfs_quota_period * 1_000_000),
    )
    pids = processes_for_pods(most, config.reservations)
    cgroups.prepare(for_pods if "pods" in config.kubelet.enforce_node_allocatable else capacity, pids)
    return Machinery(
        machine=here,
        capacity=capacity,
        enforced=for_pods,
        cgroups=cgroups,
        allocator=Allocator(allotments),
        stats=stats,
        runtime=RoutedRuntime(CriRuntime(f"unix://{config.runtime_socket}", clock)),
    )


async def proof(parts: Machinery, config: AgentConfig) -> Proof:
    """Try the runtime's handlers, and leave nothing of it behind."""
    logs = config.root_dir / "trial"
    await asyncio.to_thread(logs.mkdir, exist_ok=True)
    found = await prove_handlers(parts.runtime, str(logs), parts.cgroups.top)
    for handler in (*found.failures, *(each.name for each in found.status.handlers)):
        await parts.cgroups.remove(f"trial-{handler}")
    return found


def containerd_tool() -> str:
    """containerd's own tool, which shows the files of images."""
    try:
        return str(find_parts().ctr)
    except PartMissing:
        return "ctr"


def _whole_machine(hierarchy: Hierarchy) -> int:
    return hierarchy.memory_used("/")
