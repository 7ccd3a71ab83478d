"""Foundations of a node: the machine, its cgroups and its container runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.cpumanager import is_strict
from tarmac.agent.cpumanager.manager import CPUManager, NodeCpus
from tarmac.agent.cpumanager.placement import CpuPlacer
from tarmac.agent.cpumanager.runtime import PinningRuntime
from tarmac.agent.cpumanager.statefile import StateFile
from tarmac.agent.cpumanager.unpinning import Unpinning
from tarmac.agent.devices.checkpoint import DeviceCheckpoint
from tarmac.agent.devices.devicemanager import DeviceManager, RecordEvent
from tarmac.agent.devices.folder import check_folder
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.node.enforcement import check_reserved_groups
from tarmac.agent.node.hostfacts import HostFacts, machine
from tarmac.agent.node.nodehub import NodeHub
from tarmac.agent.node.observer import node_capacity
from tarmac.agent.node.runtimehealth import RuntimeHealth
from tarmac.agent.node.sizes import NodeSizes
from tarmac.agent.qosclasses.resource import ClassResource
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.apps.node.nodeqosclasses import NodeClasses, node_classes
from tarmac.base.clock import Clock
from tarmac.base.gates import SANDBOXED_GPUS
from tarmac.base.log import log
from tarmac.base.signals import Signal
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.amounts import MEMORY
from tarmac.decide.cpus.pools import exclusive_capacity, reserved_pool
from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.handlercheck import HandlerCheck, check_handlers
from tarmac.runtimes.interface import Runtime
from tarmac.runtimes.parts import PartMissing, find_parts
from tarmac.runtimes.routed import RoutedDriver, RoutedRuntime

_log = log("agent")


@dataclass(frozen=True, slots=True)
class Machinery:
    """The machine and the services of the node on it."""

    machine: HostFacts
    sizes: NodeSizes
    hierarchy: Hierarchy
    cgroups: KubePods
    allocator: Allocator
    devices: DeviceManager
    stats: MachineStats
    runtime: Runtime
    limits_changed: Signal[[str]]
    """The limits of a container have changed, given its id."""
    health: RuntimeHealth
    classes: NodeClasses | None
    class_resource: ClassResource | None
    cpus: CPUManager | None
    placed: CpuPlacer | Unpinning
    """Keeps processes on their CPUs."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A machine that is large enough for its reservations."""

    machine: HostFacts
    sizes: NodeSizes
    hierarchy: Hierarchy
    stats: MachineStats
    classes: NodeClasses | None
    cpus: CPUManager | None


def survey(config: AgentConfig) -> Surveyed:
    """Inspect the machine; creates nothing and sends no request. Raises BadConfig, CgroupError."""
    check_folder(config.flags.device_plugin_dir)
    DeviceCheckpoint(config.root_dir).read()
    here, hierarchy = machine(), mounted()
    stats = MachineStats(lambda: _whole_machine(hierarchy))
    most, _ = stats.processes()
    static = config.cpu_manager_policy == "static"
    exclusive = exclusive_capacity(here.processors, config.reservations) if static else None
    sizes = NodeSizes(node_capacity(config, here), most, config.reservations, exclusive)
    check_reserved_groups(hierarchy, config.kubelet, config.reservations)
    cpus = cpu_manager(config, here) if static else None
    return Surveyed(here, sizes, hierarchy, stats, node_classes(config, hierarchy), cpus)


def cpu_manager(config: AgentConfig, here: HostFacts) -> CPUManager:
    """Return the CPU manager, with the assignments of an earlier agent. Raises BadConfig."""
    reserved = reserved_pool(here.topology, config.reservations)
    lent = three_decimals(config.reservations.oversubscription)
    _log.info("static CPU manager policy reserves CPUs", cpus=str(reserved), cpu_oversubscription=lent)
    file = StateFile(config.root_dir)
    assignments = file.read(here.topology.cpus, reserved)
    strict = is_strict(config.kubelet.cpu_manager_policy_options)
    return CPUManager(NodeCpus(here.topology, reserved, strict), file, assignments)


def machinery(
    config: AgentConfig,
    found: Surveyed,
    clock: Clock,
    pods: PodHub,
    node: NodeHub,
    record_event: RecordEvent,
    drivers: Sequence[RoutedDriver] = (),
) -> Machinery:
    """Create the pods' cgroups. `drivers` run pods beside containerd. Raises BadConfig, CgroupError, OSError."""
    devices = DeviceManager(DeviceCheckpoint(config.root_dir), clock, record_event, node.wake, pods.wake)
    stated = found.sizes
    sizes = NodeSizes(stated.capacity, stated.processes, stated.reservations, stated.exclusive, devices.amounts)
    cgroups = KubePods(found.hierarchy, config.cgroup_root, clock)
    allotments = AllocationSettings(
        memory_capacity=sizes.capacity[MEMORY],
        pids=config.kubelet.pod_pids_limit,
        enforce_cpu=config.kubelet.cpu_cfs_quota,
        period=round(config.kubelet.cpu_cfs_quota_period * 1_000_000),
    )
    cgroups.prepare()
    limits_changed: Signal[[str]] = Signal()
    containerd = CriRuntime(f"unix://{config.runtime_socket}", clock)
    runtime: Runtime = RoutedRuntime(containerd, *drivers, after_update=limits_changed)
    placed: CpuPlacer | Unpinning
    if found.cpus is not None:
        found.cpus.keep()
        period = config.kubelet.cpu_manager_reconcile_period
        placed = CpuPlacer(found.cpus, found.hierarchy, cgroups, runtime, clock, period)
        runtime = PinningRuntime(runtime, found.cpus, placed)
    else:
        online, file = found.machine.topology.cpus, StateFile(config.root_dir)
        placed = Unpinning(found.hierarchy, cgroups, runtime, online, file, clock)
    health = RuntimeHealth(
        runtime,
        clock,
        lambda: proof(runtime, cgroups, config),
        partial(_handler_failed, record_event),
        sandboxed_gpus=config.gates.enabled(SANDBOXED_GPUS),
    )
    # Classes before CPUs, so that a pod rejected for its classes gets no CPUs.
    classes = [found.classes.resource(pods, health)] if found.classes else []
    allocator = Allocator(allotments, [*classes, *([found.cpus] if found.cpus else [])], [devices])
    if found.classes:
        found.classes.types_changed.subscribe(allocator.reconsider)
        found.classes.warned.subscribe(partial(record_event, "Warning"))
    return Machinery(
        machine=found.machine,
        sizes=sizes,
        cgroups=cgroups,
        hierarchy=found.hierarchy,
        allocator=allocator,
        devices=devices,
        stats=found.stats,
        runtime=runtime,
        limits_changed=limits_changed,
        health=health,
        classes=found.classes,
        class_resource=classes[0] if classes else None,
        cpus=found.cpus,
        placed=placed,
    )


def _handler_failed(record_event: RecordEvent, handler: str, why: str) -> None:
    record_event(
        "Warning", "RuntimeHandlerFailed", f"Runtime handler {handler} does not work and is not offered: {why}"
    )


async def proof(runtime: Runtime, cgroups: KubePods, config: AgentConfig) -> HandlerCheck:
    """Test the runtime's handlers, and clean up."""
    logs = config.root_dir / "trial"
    await asyncio.to_thread(logs.mkdir, exist_ok=True)
    found = await check_handlers(runtime, str(logs), cgroups.top)
    for handler in (*found.failures, *(each.name for each in found.status.handlers)):
        await cgroups.remove(f"trial-{handler}")
    return found


def containerd_tool() -> str:
    """Return containerd's tool `ctr`, which mounts images."""
    try:
        return str(find_parts().ctr)
    except PartMissing:
        return "ctr"


def _whole_machine(hierarchy: Hierarchy) -> int:
    return hierarchy.memory_used("/")
