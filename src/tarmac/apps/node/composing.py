"""Composes a node: every part is created here once, gets its dependencies, and runs until the node ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.config.agentconfig import AgentConfig, of_own_node
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.cpumanager.unpinning import Unpinning
from tarmac.agent.disks.controller import DiskRemoval
from tarmac.agent.model.podclasses import PodClasses
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.network.dialing import from_the_node
from tarmac.agent.network.networkadmission import unconnected
from tarmac.agent.node.detectedaddresses import node_addresses
from tarmac.agent.node.enforcement import Enforcement
from tarmac.agent.node.identity import NodeIdentity
from tarmac.agent.node.imageroot import image_root
from tarmac.agent.node.lease import Heartbeat
from tarmac.agent.node.machinedisks import machine_image
from tarmac.agent.node.networkmode import has_own_network
from tarmac.agent.node.nodehub import NodeHub
from tarmac.agent.node.observer import Observer
from tarmac.agent.node.oversubscription import oversubscription_event
from tarmac.agent.node.registration import node_object
from tarmac.agent.node.reporter import NodeReporter
from tarmac.agent.pods.admission import AdmitCheck
from tarmac.agent.pods.machineshape import machine_check
from tarmac.agent.pods.manager import PodManager, no_notes
from tarmac.agent.sizing.periodic import PeriodicSizing
from tarmac.agent.sizing.providers import SizingProviders
from tarmac.agent.sources.apisources import ApiSources
from tarmac.agent.sources.volumesources import VolumeSources, no_machine_images
from tarmac.agent.stats.agent import certificate_metrics, disk_metrics
from tarmac.agent.stats.summary import NodeStats, Sample
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject
from tarmac.apps.node.devices import NodeDeviceService
from tarmac.apps.node.findgpus import find_gpus
from tarmac.apps.node.foundations import Surveyed, containerd_tool, machinery, survey
from tarmac.apps.node.housekeeping import Housekeeping
from tarmac.apps.node.networking import Networking
from tarmac.apps.node.nodemachines import NodeMachines
from tarmac.apps.node.nodeserving import Serving
from tarmac.apps.node.partsettings import pod_settings
from tarmac.base.clock import SystemClock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import supervise
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.eventrecorder import EventType, InvolvedObject, Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import PODS
from tarmac.decide.allocatable.nodestatus import sizes_in_status
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.runtimes.interface import RuntimeStatus, RuntimeUnreachable
from tarmac.runtimes.qemu.qemuruntime import HANDLER
from tarmac.volumes.driver import PodVolumes
from tarmac.volumes.interface import no_machines
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.medium import LinuxMedium

_FLUSH_TIMEOUT = 2.0
_log = log("agent")


@dataclass(frozen=True, slots=True)
class Providers:
    """The sizing providers of the node, and the function to call them again."""

    asked: SizingProviders
    again: Callable[[], Awaitable[Reservations]]


class NodeAgent:
    """All parts of a node, leaves first. Create it with `compose`."""

    def __init__(
        self,
        config: AgentConfig,
        surveyed: Surveyed,
        client: Client,
        identity: NodeIdentity,
        providers: Providers | None,
        stack: AsyncExitStack,
        *,
        own_network: bool,
    ) -> None:
        clock = client.clock
        self.name = config.node_name
        self._config = config
        self._client = client
        self._clock = clock
        self._identity = identity
        self._providers = providers
        self._shutting_down = False
        self._all_known = False
        self._about = InvolvedObject("v1", "Node", config.node_name, uid=config.node_name)
        self._recorder = Recorder(client, "kubelet", config.node_name)
        self._informers = Informers(client)
        # Between parts that need each other: both get a hub.
        self._pod_hub = PodHub()
        self._node_hub = NodeHub(config.node_name, self._unregistered)
        self._objects = ApiSources(client, self._pod_hub.wake)
        self._networking = (
            Networking(config, self._informers, self._recorder, self._pod_hub, self._node_hub, stack)
            if own_network
            else None
        )
        self._connect = self._networking.dial if self._networking else from_the_node
        taps = self._networking.taps if self._networking else None
        machines = NodeMachines.find(config, surveyed.hierarchy, taps, clock, self._recorder)
        self._machines = machines if isinstance(machines, NodeMachines) else None
        self._machine_state = machines.state if isinstance(machines, NodeMachines) else lambda: machines
        drivers = [self._machines.driver()] if self._machines else []
        self._parts = machinery(config, surveyed, clock, self._pod_hub, self._node_hub, self._record_event, drivers)
        parts = self._parts
        self._enforcement = Enforcement(
            parts.hierarchy, parts.cgroups, config.kubelet, parts.sizes, self._record_event, clock
        )
        self._enforcement.once()  # before the first pod starts
        self._volumes = self._made_volumes()
        self._house = Housekeeping(
            config, parts, self._volumes, self._pod_hub, self._node_hub, self._recorder, self._about, clock
        )
        keeper, self._class_events = (
            parts.classes.keeper(parts.runtime, parts.cgroups, parts.health, self._recorder, parts.limits_changed)
            if parts.classes
            else (None, None)
        )
        self._gpus = find_gpus(config, clock, self._record_event)
        self._devices = NodeDeviceService(config, parts.devices, self._pod_hub, parts.health.device_handlers)
        self._bound = self._informers.informer(PODS, fields=f"spec.nodeName={config.node_name}")
        self._bound.on_change(self._follow)
        self._pods = self._made_pods(keeper)
        self._reporter = NodeReporter(
            client, self._informers, config, self._observer(), self._recorder, self._annotations, self._node_hub
        )
        identity.on_trust(self._reporter.wake)
        self._heartbeat = Heartbeat(
            client, config.node_name, config.kubelet.node_lease_duration_seconds, self._reporter.node
        )
        self._figures = NodeStats(
            config.node_name,
            parts.stats,
            self._house.stats,
            config.root_dir,
            lambda: self._house.images.mount_point,
            clock,
            self._metrics(),
            [self._networking.external.refresh] if self._networking else [],
        )
        self._chores = self._made_chores()
        self._report_cpu_policy()
        self._report_unknown_flags()

    @staticmethod
    async def compose(config: AgentConfig, stack: AsyncExitStack, providers: Providers | None = None) -> NodeAgent:
        """Create every part; the stack closes those that need it. Raises BadConfig, CgroupError."""
        surveyed = survey(config)  # before any request: a node that does not fit must not appear in the cluster
        identity = NodeIdentity(config, SystemClock(), Randomness())
        client = await identity.client()
        stack.push_async_callback(client.close)
        own = await has_own_network(config, client)
        _log.info("pod networking mode selected", by="tarmac" if own else "cni")
        node = NodeAgent(of_own_node(config, own), surveyed, client, identity, providers, stack, own_network=own)
        stack.push_async_callback(node._parts.runtime.close)
        if node._machines is not None:
            stack.push_async_callback(node._machines.close)
            await node._machines.runtime.adopt()  # before the runtime is queried
        stack.push_async_callback(node._parts.devices.close)
        return node

    async def ready(self) -> None:
        """Wait until the server knows the node, and the runtime has answered."""
        await self._reporter.registered.wait()
        await self._pods.ready()

    async def run(self) -> None:
        """Run the node until cancelled."""
        if event := oversubscription_event(self._parts.sizes.ledger()):
            self._recorder.event(self._about, *event)
        await self._parts.health.refresh()  # before pods, which need handlers and classes
        self._offered(self._parts.health.status)
        try:
            async with asyncio.TaskGroup() as group:
                for run in (
                    self._informers.run,
                    self._recorder.run,
                    self._objects.run,
                    self._pods.run,
                    self._reporter.run,
                    self._heartbeat.run,
                    self._identity.run,
                    self._identity.follow_servers,
                    self._identity.follow_authorities,
                ):
                    group.create_task(run())
                self._supervise(group, {**self._ways(), **self._resizing()})
                await self._pods.ready()
                self._supervise(group, self._chores)
                await self._bound.synced()
                self._all_known = True
                self._supervise(group, {"leftovers": self._house.leftovers().run})
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_TIMEOUT):
                    await self._recorder.flush()

    async def drain(self) -> None:
        """End pods within the shutdown grace period, and report it: the machine goes down."""
        kubelet = self._config.kubelet
        self._shutting_down = True
        self._reporter.wake()
        if self._networking is not None:
            await self._networking.hand_over()
        critical = kubelet.shutdown_grace_period_critical_pods
        _log.info("machine shuts down, ending pods", seconds=float(kubelet.shutdown_grace_period))
        await self._pods.drain(kubelet.shutdown_grace_period - critical, critical)

    def node(self) -> JsonObject:
        """Return the Node as the server has it, or as it would be registered."""
        return self._node_hub.node()

    def _supervise(self, group: asyncio.TaskGroup, runs: dict[str, Callable[[], Awaitable[None]]]) -> None:
        for name, run in runs.items():
            group.create_task(supervise(name, partial(_unless_the_runtime_is_away, name, run), self._clock), name=name)

    def _made_volumes(self) -> PodVolumes:
        """Return the volumes; those made from images pull them with the rights of their pods."""
        config, machines = self._config, self._machines
        access, place = RepositoryAccess(self._client, self._objects), config.root_dir / "images"
        views = image_root(self._parts.runtime, access, config.runtime_socket, containerd_tool(), place)
        disks = machine_image(machines.images.disk, access) if machines else no_machine_images
        layout, grown = VolumeLayout(str(config.root_dir)), machines.grown if machines else no_machines
        sources = VolumeSources(self._objects, views, disks)
        return PodVolumes(layout, LinuxMedium(layout), sources, self._node_hub.facts, self._clock, grown)

    def _made_pods(self, keeper: PodClasses | None) -> PodManager:
        parts = self._parts
        return PodManager(
            client=self._client,
            informers=self._informers,
            runtime=parts.runtime,
            volumes=self._volumes,
            sources=self._objects,
            cgroups=parts.cgroups,
            allocator=parts.allocator,
            classes=keeper,
            connect=self._connect,
            node=self._node_hub.node,
            handlers=parts.health.handlers,
            recorder=self._recorder,
            settings=pod_settings(self._config, own_network=self._networking is not None),
            notes=parts.cpus.notes if parts.cpus else no_notes,
            admit_checks=self._admit_checks(),
            resize_checks=[
                *([parts.class_resource.postponed] if parts.class_resource else []),
                *([parts.cpus.postponed] if parts.cpus else []),
            ],
            status_listeners=[self._machines.status_heard] if self._machines else [],
            hub=self._pod_hub,
        )

    def _admit_checks(self) -> list[AdmitCheck]:
        return [
            *([machine_check(self._pod_hub.handler, HANDLER)] if self._machines else []),
            self._house.evictions.admission,
            self._devices.refusal,
            *([unconnected] if self._networking else []),
        ]

    def _observer(self) -> Observer:
        return Observer(
            self._config,
            self._parts.machine,
            self._parts.sizes,
            self._parts.health,
            self._house.images.present,
            self._house.pressures,
            [lambda: "node is shutting down" if self._shutting_down else ""],
            self._offered,
            self._networking.tunnel_state if self._networking else lambda: None,
            self._machine_state,
            self._gpus.state if self._gpus else lambda: None,
        )

    def _metrics(self) -> list[Callable[[], Iterable[Sample]]]:
        """Return the sources of the agent's metrics."""
        parts = self._parts
        return [
            *([self._machines.metrics] if self._machines else []),
            *([self._class_events.metrics] if self._class_events else []),
            *self._house.metrics(),
            parts.devices.metrics,
            *([self._gpus.metrics(self.name, parts.devices.in_use, self._pod_hub.pods)] if self._gpus else []),
            disk_metrics(self._config.root_dir),
            certificate_metrics(self._identity.ends, self._clock),
            *([parts.cpus.metrics] if parts.cpus else []),
            *([self._providers.asked.metrics] if self._providers else []),
            *([self._networking.external.metrics, self._networking.ingress.metrics] if self._networking else []),
        ]

    def _made_chores(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks that need known pods, by name."""
        parts = self._parts
        placed = parts.placed
        processors = placed.run if isinstance(placed, Unpinning) else partial(placed.run, self._known_pods)
        classes = {"classes": parts.classes.watch(self._pods, self._clock)} if parts.classes else {}
        return {
            **self._house.chores(),
            "devices": self._devices.run,
            **(self._gpus.runs() if self._gpus else {}),
            **classes,
            "enforcement": self._enforcement.run,
            "processors": processors,
        }

    def _annotations(self) -> dict[str, str]:
        published = (self.node()["metadata"].get("annotations") or {}).get(ANNOTATION_TUNNEL, "")
        tunnel = self._networking.tunnel(published) if self._networking else ""
        return {TRUSTS: self._identity.trusts(), ANNOTATION_TUNNEL: tunnel}

    def _offered(self, status: RuntimeStatus | None) -> JsonObject:
        return self._parts.classes.offered(status) if self._parts.classes else {}

    def _report_cpu_policy(self) -> None:
        """Report that a change of the CPU manager's policy moves pods."""
        parts = self._parts
        if isinstance(parts.placed, Unpinning):
            if parts.placed.needed():
                self._record_event(
                    "Normal", "CPUManagerStateReset", "CPU manager policy is none now: pods run on all CPUs"
                )
            return
        assert parts.cpus is not None, "there is a manager where containers are placed"
        if parts.cpus.begins and (running := parts.cgroups.uids()):
            stay = f"{len(running)} pods that run share CPUs until they restart"
            self._record_event("Normal", "CPUManagerStateReset", f"CPU manager policy is static now: {stay}")

    def _report_unknown_flags(self) -> None:
        for flag in self._config.flags.unknown:
            _log.warning("unknown flag has no effect", flag=flag)
            self._record_event("Warning", "UnknownFlag", f"{flag} is not known here and has no effect")

    def _record_event(self, type: EventType, reason: str, message: str) -> None:
        self._recorder.event(self._about, type, reason, message)

    def _known_pods(self) -> set[str] | None:
        """Return the uids of all pods of this node; None before the informer has synced."""
        return {each["metadata"]["uid"] for each in self._pods.pods()} if self._all_known else None

    def _ways(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks that connect pods, and those that serve pods and the node."""
        runtime = self._parts.runtime
        serving = Serving(
            self._config,
            lambda: replace(self._config, reservations=self._parts.sizes.reservations),
            self._client,
            self._identity,
            self._pods,
            runtime,
            self._connect,
            self._figures,
            self._node_hub.node,
            self._recorder,
            self._networking.external_connections() if self._networking is not None else None,
            self._networking.ingress.check if self._networking is not None else None,
        )
        if self._networking is None:
            return serving.runs()
        networks = self._networking.serve(runtime, self._objects.token)
        disks = DiskRemoval(self._client, self._volumes, self.name)
        return {**networks, **serving.runs(), **self._machine_runs(), "disks": disks.run}

    def _machine_runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks for virtual machines, if there are any."""
        if self._machines is None:
            return {}
        machines = self._machines
        offer = partial(machines.offer, self._client, self.name, self._record_event, self._reporter.wake)
        return {"machines": machines.runtime.run, "machines' trial": offer}

    def _resizing(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the task that calls the sizing providers again each period, if there is one.

        Sizes do not depend on the runtime, so it does not wait for it as the chores do.
        """
        period = self._config.kubelet.sizing_provider_period
        if self._providers is None or not period:
            return {}
        sizes = self._parts.sizes
        keep_cpu = self._config.cpu_manager_policy == "static"
        resizing = PeriodicSizing(
            self._providers.again,
            lambda: sizes.reservations,
            self._resize,
            self._record_event,
            period,
            self._clock,
            keep_cpu,
        )
        return {"sizing": resizing.run}

    def _resize(self, reservations: Reservations) -> None:
        """Change the sizes: first on the pods' cgroup, then for all readers.

        Raises BadConfig; nothing has changed then.
        """
        sizes, before = self._parts.sizes, self._parts.sizes.reservations
        sizes.reservations = sizes.fitting(reservations)
        try:
            self._enforcement.apply()
        except CgroupError as error:
            sizes.reservations = before
            with suppress(CgroupError):
                self._enforcement.apply()
            raise BadConfig(f"the kernel refuses it: {error}") from error
        self._reporter.wake()

    def _unregistered(self) -> JsonObject:
        status: JsonObject = {
            **sizes_in_status(self._parts.sizes.ledger()),
            "addresses": node_addresses(self._config.flags.node_ips, self.name),
        }
        return node_object(self._config, self._parts.machine.architecture, status)

    def _follow(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        if new is not None:
            self._objects.follow(new.object)
        elif old is not None:
            self._objects.unfollow(old.metadata.uid)


async def _unless_the_runtime_is_away(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a task, and ignore an unreachable runtime: its other users report that once a minute."""
    try:
        await run()
    except RuntimeUnreachable as fault:
        _log.debug("task waits for the runtime", what=name, why=str(fault))
