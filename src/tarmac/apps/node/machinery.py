"""What a node stands on: the machine, its control groups and its container runtime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.cgroups.hierarchy import Hierarchy, mounted
from tarmac.agent.cgroups.pods import KubePods
from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.node.machine import Machine, machine
from tarmac.agent.node.observer import node_capacity
from tarmac.agent.node.sizes import NodeSizes
from tarmac.agent.stats.machine import MachineStats
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.scheduling.amounts import CPU, MEMORY, Amounts, shown
from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.handlercheck import Proof, prove_handlers
from tarmac.runtimes.interface import Runtime
from tarmac.runtimes.parts import PartMissing, find_parts
from tarmac.runtimes.routed import RoutedRuntime

_log = log("agent")


@dataclass(frozen=True, slots=True)
class Machinery:
    """The machine and what runs on it."""

    machine: Machine
    sizes: NodeSizes
    cgroups: KubePods
    allocator: Allocator
    stats: MachineStats
    runtime: Runtime


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A machine that is large enough for what is held back of it."""

    machine: Machine
    sizes: NodeSizes
    hierarchy: Hierarchy
    stats: MachineStats


def survey(config: AgentConfig) -> Surveyed:
    """Look at the machine; nothing is made and nobody is asked. Raises BadConfig, CgroupError."""
    here, hierarchy = machine(), mounted()
    stats = MachineStats(lambda: _whole_machine(hierarchy))
    most, _ = stats.processes()
    return Surveyed(here, NodeSizes(node_capacity(config, here), most, config.reservations), hierarchy, stats)


def machinery(config: AgentConfig, found: Surveyed, clock: Clock) -> Machinery:
    """Make the pods' cgroups. Raises CgroupError."""
    cgroups = KubePods(found.hierarchy, config.cgroup_root, clock)
    allotments = AllocationSettings(
        memory_capacity=found.sizes.capacity[MEMORY],
        pids=config.kubelet.pod_pids_limit,
        enforce_cpu=config.kubelet.cpu_cfs_quota,
        period=round(config.kubelet.cpu_cfs_quota_period * 1_000_000),
    )
    limits = for_all_pods(config, found.sizes)
    cgroups.prepare(limits, found.sizes.pids)
    _log.info(
        "all pods together are limited",
        **{name: shown(name, limits[name]) for name in (CPU, MEMORY)},
        pids=found.sizes.pids,
        cpu_oversubscription=three_decimals(config.reservations.oversubscription),
    )
    return Machinery(
        machine=found.machine,
        sizes=found.sizes,
        cgroups=cgroups,
        allocator=Allocator(allotments),
        stats=found.stats,
        runtime=RoutedRuntime(CriRuntime(f"unix://{config.runtime_socket}", clock)),
    )


def for_all_pods(config: AgentConfig, sizes: NodeSizes) -> Amounts:
    """What the cgroup above all pods is given."""
    return sizes.enforced if "pods" in config.kubelet.enforce_node_allocatable else sizes.capacity


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
