"""Composes a node: every part is created here once, gets its dependencies, and runs until the node ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.config.reading import BadConfig
from tarmac.agent.config.settings import AgentConfig, of_own_node
from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.cpumanager.unpinning import Unpinning
from tarmac.agent.disks.controller import DiskRemoval
from tarmac.agent.model.qosclasses import PodClasses
from tarmac.agent.network.dialing import from_the_node
from tarmac.agent.node.addresses import node_addresses
from tarmac.agent.node.enforcement import Enforcement
from tarmac.agent.node.identity import NodeIdentity
from tarmac.agent.node.imageroot import image_root
from tarmac.agent.node.lease import Heartbeat
from tarmac.agent.node.machinedisks import machine_image
from tarmac.agent.node.networkmode import has_own_network
from tarmac.agent.node.observer import Observer
from tarmac.agent.node.oversubscription import oversubscription_event
from tarmac.agent.node.registration import node_object
from tarmac.agent.node.reporter import NodeReporter
from tarmac.agent.node.runtimehealth import RuntimeHealth
from tarmac.agent.pods.manager import PodManager, no_notes
from tarmac.agent.sizing.periodic import PeriodicSizing
from tarmac.agent.sizing.providers import SizingProviders
from tarmac.agent.sources.sources import ApiSources
from tarmac.agent.stats.agent import certificate_metrics, disk_metrics
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject
from tarmac.apps.node.devices import NodeDeviceService
from tarmac.apps.node.foundations import Surveyed, containerd_tool, machinery, proof, survey
from tarmac.apps.node.housekeeping import Housekeeping
from tarmac.apps.node.machines import NodeMachines
from tarmac.apps.node.networking import Networking
from tarmac.apps.node.serving import Serving
from tarmac.apps.node.settings import pod_settings
from tarmac.base.clock import SystemClock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import supervise
from tarmac.client.cache import Item
from tarmac.client.client import Client
from tarmac.client.events import EventType, InvolvedObject, Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import PODS
from tarmac.decide.allocatable.nodestatus import sizes_in_status
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.runtimes.interface import RuntimeStatus, Unreachable
from tarmac.volumes.driver import PodVolumes
from tarmac.volumes.interface import no_machines
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.node import VolumeNode

_LAST_WORDS = 2.0
_log = log("agent")


@dataclass(frozen=True, slots=True)
class Providers:
    """The sizing providers of the node, and the function to call them again."""

    asked: SizingProviders
    again: Callable[[], Awaitable[Reservations]]


class NodeAgent:
    """All parts of a node. Create it with `compose`."""

    def __init__(
        self,
        config: AgentConfig,
        surveyed: Surveyed,
        client: Client,
        identity: NodeIdentity,
        networking: Networking | None,
        providers: Providers | None,
    ) -> None:
        self.name = config.node_name
        self._config = config
        self._client = client
        self._clock = client.clock
        self._identity = identity
        self._networking = networking
        self._informers = networking.informers if networking else Informers(client)
        self._connect = networking.dial if networking else from_the_node
        self._about = InvolvedObject("v1", "Node", config.node_name, uid=config.node_name)
        self._recorder = Recorder(client, "kubelet", config.node_name)
        self._shutting_down = False
        self._all_known = False
        self._sizing: dict[str, Callable[[], Awaitable[None]]] = {}
        datapath, groups = networking.datapath if networking else None, surveyed.hierarchy
        machines = NodeMachines.find(config, groups, datapath, self._clock)
        self._machines = machines if isinstance(machines, NodeMachines) else None
        self._machine_state = machines.state if isinstance(machines, NodeMachines) else lambda: machines
        drivers = [self._machines.driver()] if self._machines else []
        self._parts = machinery(config, surveyed, self._clock, drivers)
        self._unregistered = self._as_nobody_knows_it()
        self._health = RuntimeHealth(
            self._parts.runtime, self._clock, lambda: proof(self._parts, config), self._handler_failed
        )
        self._enforcement = Enforcement(
            self._parts.hierarchy, self._parts.cgroups, config.kubelet, self._parts.sizes, self._say, self._clock
        )
        self._enforcement.once()  # before the first pod starts
        self._make_pods()
        self._make_voice()
        self._place_pods()
        self._tell_unknown_flags()
        if providers is not None:
            self._follow_sizes(providers)

    @staticmethod
    async def compose(config: AgentConfig, stack: AsyncExitStack, providers: Providers | None = None) -> NodeAgent:
        """Create every part; the stack closes those that need it. Raises BadConfig, CgroupError."""
        surveyed = survey(config)  # before any request: a node that does not fit must not appear in the cluster
        identity = NodeIdentity(config, SystemClock(), Randomness())
        client = await identity.client()
        stack.push_async_callback(client.close)
        own = await has_own_network(config, client)
        _log.info("pod networking mode selected", by="tarmac" if own else "cni")
        config = of_own_node(config, own)
        networking = Networking(config, client, stack) if own else None
        node = NodeAgent(config, surveyed, client, identity, networking, providers)
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
        await self._health.refresh()  # before pods, which need handlers and classes
        self._offered(self._health.status)
        try:
            async with asyncio.TaskGroup() as group:
                for run in (
                    self._informers.run,
                    self._recorder.run,
                    self._sources.run,
                    self._pods.run,
                    self._reporter.run,
                    self._heartbeat.run,
                    self._identity.run,
                    self._identity.follow_servers,
                    self._identity.follow_authorities,
                ):
                    group.create_task(run())
                self._supervise(group, {**self._ways(), **self._sizing})
                await self._pods.ready()
                self._supervise(group, self._chores)
                await self._bound.synced()
                self._all_known = True
                self._supervise(group, {"leftovers": self._house.leftovers(self._pods).run})
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
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
        return self._reporter.node() or self._unregistered

    def _supervise(self, group: asyncio.TaskGroup, runs: dict[str, Callable[[], Awaitable[None]]]) -> None:
        for name, run in runs.items():
            group.create_task(supervise(name, partial(_unless_the_runtime_is_away, name, run), self._clock), name=name)

    def _make_pods(self) -> None:
        config = self._config
        # A cycle: `views` is created below.
        self._sources = ApiSources(self._client, lambda image, pod: views(image, pod))  # noqa: PLW0108
        access, place = RepositoryAccess(self._client, self._sources), config.root_dir / "images"
        views = image_root(self._parts.runtime, access, config.runtime_socket, containerd_tool(), place)
        layout = VolumeLayout(str(config.root_dir))
        grown = self._machines.grown if self._machines else no_machines
        self._volumes = PodVolumes(layout, LinuxMedium(layout), self._sources, self._facts, self._clock, grown)
        self._house = Housekeeping(
            config, self._parts, self._health, self._volumes, self.node, self._recorder, self._about, self._clock
        )
        self._bound = self._informers.informer(PODS, fields=f"spec.nodeName={config.node_name}")
        self._bound.on_change(self._follow)
        self._pods = PodManager(
            client=self._client,
            informers=self._informers,
            runtime=self._parts.runtime,
            volumes=self._volumes,
            sources=self._sources,
            cgroups=self._parts.cgroups,
            allocator=self._parts.allocator,
            classes=self._keeper(),
            connect=self._connect,
            node=self.node,
            handlers=self._health.handlers,
            recorder=self._recorder,
            settings=pod_settings(config, own_network=self._networking is not None),
            notes=self._parts.cpus.notes if self._parts.cpus else no_notes,
        )
        self._sources.changed = self._pods.wake
        if self._machines is not None:
            self._machines.meet(self._pods, self._recorder)
            self._sources.machine_image = machine_image(self._machines.images.disk, access)
            self._house.counters.add_metrics(self._machines.metrics)
        if self._parts.classes:
            self._parts.classes.meet(self._pods, self._health, self._parts.allocator)

    def _keeper(self) -> PodClasses | None:
        """Return the keeper of pods' classes, if the feature is on."""
        classes = self._parts.classes
        if classes is None:
            return None
        keeper, events = classes.keeper(self._parts.runtime, self._parts.cgroups, self._health, self._recorder)
        classes.discovery.tell = partial(self._recorder.event, self._about, "Warning")
        self._parts.routed.after_update.append(keeper.rewrite)
        self._house.counters.add_metrics(events.metrics)
        return keeper

    def _make_voice(self) -> None:
        config = self._config
        observer = Observer(
            config,
            self._parts.machine,
            self._parts.sizes,
            self._health,
            self._house.images.present,
            self._house.pressures,
            [lambda: "node is shutting down" if self._shutting_down else ""],
            self._offered,
            self._networking.tunnel_state if self._networking else lambda: None,
            self._machine_state,
        )
        self._reporter = NodeReporter(
            self._client, self._informers, config, observer, self._recorder, self._annotations
        )
        self._identity.on_trust(self._reporter.wake)
        self._heartbeat = Heartbeat(
            self._client, config.node_name, config.kubelet.node_lease_duration_seconds, self._reporter.node
        )
        self._chores = self._house.watch_over(self._pods, self._reporter.wake)
        devices = NodeDeviceService(config, self._parts.devices, self._pods, self._health.device_handlers)
        self._chores["devices"] = devices.serve(self._reporter.wake, partial(self._recorder.event, self._about))
        self._house.counters.add_metrics(self._parts.devices.metrics)
        self._house.counters.add_metrics(disk_metrics(config.root_dir))
        self._house.counters.add_metrics(certificate_metrics(self._identity.ends, self._clock))
        if self._parts.classes:
            self._chores["classes"] = self._parts.classes.watch(self._pods, self._clock)

    def _annotations(self) -> dict[str, str]:
        published = (self.node()["metadata"].get("annotations") or {}).get(ANNOTATION_TUNNEL, "")
        tunnel = self._networking.tunnel(published) if self._networking else ""
        return {TRUSTS: self._identity.trusts(), ANNOTATION_TUNNEL: tunnel}

    def _offered(self, status: RuntimeStatus | None) -> JsonObject:
        return self._parts.classes.offered(status) if self._parts.classes else {}

    def _place_pods(self) -> None:
        """Start the pinning of processes to CPUs, and report if a change of the policy moves them."""
        parts = self._parts
        self._chores["enforcement"] = self._enforcement.run
        if isinstance(parts.placed, Unpinning):
            self._chores["processors"] = parts.placed.run
            if parts.placed.needed():
                self._say("Normal", "CPUManagerStateReset", "CPU manager policy is none now: pods run on all CPUs")
            return
        assert parts.cpus is not None, "there is a manager where containers are placed"
        self._chores["processors"] = partial(parts.placed.run, self._known_pods)
        self._house.counters.add_metrics(parts.cpus.metrics)
        self._pods.add_resize_check(parts.cpus.postponed)
        if parts.cpus.begins and (running := parts.cgroups.uids()):
            stay = f"{len(running)} pods that run share CPUs until they restart"
            self._say("Normal", "CPUManagerStateReset", f"CPU manager policy is static now: {stay}")

    def _tell_unknown_flags(self) -> None:
        for flag in self._config.flags.unknown:
            _log.warning("unknown flag has no effect", flag=flag)
            self._say("Warning", "UnknownFlag", f"{flag} is not known here and has no effect")

    def _say(self, type: EventType, reason: str, message: str) -> None:
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
            self._house.counters,
            self.node,
            self._recorder,
            self._networking.external_connections(self._pods) if self._networking is not None else None,
        )
        if self._networking is None:
            return serving.runs()
        taps = self._machines.taps if self._machines else None
        networks = self._networking.serve(
            self._pods, runtime, self._addresses, self._sources.token, self._recorder, taps, self._reporter.wake
        )
        if self._networking.external is not None:
            external = self._networking.external
            self._house.counters.add_metrics(external.metrics, external.refresh)
        disks = DiskRemoval(self._client, self._volumes, self.name)
        return {**networks, **serving.runs(), **self._machine_runs(), "disks": disks.run}

    def _machine_runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks for virtual machines, if there are any."""
        if self._machines is None:
            return {}
        machines = self._machines
        offer = partial(machines.offer, self._client, self.name, self._say, self._reporter.wake)
        return {"machines": machines.runtime.run, "machines' trial": offer}

    def _follow_sizes(self, providers: Providers) -> None:
        """Expose the providers' metrics; call them again each period, if there is one.

        Sizes do not depend on the runtime, so this does not wait for it as the chores do.
        """
        self._house.counters.add_metrics(providers.asked.metrics)
        if period := self._config.kubelet.sizing_provider_period:
            sizes = self._parts.sizes
            keep_cpu = self._config.cpu_manager_policy == "static"
            resizing = PeriodicSizing(
                providers.again, lambda: sizes.reservations, self._resize, self._say, period, self._clock, keep_cpu
            )
            self._sizing["sizing"] = resizing.run

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

    def _as_nobody_knows_it(self) -> JsonObject:
        status: JsonObject = {
            **sizes_in_status(self._parts.sizes.ledger()),
            "addresses": node_addresses(self._config.flags.node_ips, self.name),
        }
        return node_object(self._config, self._parts.machine.architecture, status)

    def _addresses(self) -> list[str]:
        told: list[JsonObject] = (self.node().get("status") or {}).get("addresses") or []
        return [each["address"] for each in told if each["type"] == "InternalIP"]

    def _facts(self) -> VolumeNode:
        node = self.node()
        return VolumeNode(
            self.name, node["metadata"].get("labels") or {}, (node.get("status") or {}).get("allocatable") or {}
        )

    def _follow(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        if new is not None:
            self._sources.follow(new.object)
        elif old is not None:
            self._sources.unfollow(old.metadata.uid)

    def _handler_failed(self, handler: str, why: str) -> None:
        message = f"Runtime handler {handler} does not work and is not offered: {why}"
        self._recorder.event(self._about, "Warning", "RuntimeHandlerFailed", message)


async def _unless_the_runtime_is_away(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a task, and ignore an unreachable runtime: its other users report that once a minute."""
    try:
        await run()
    except Unreachable as fault:
        _log.debug("task waits for the runtime", what=name, why=str(fault))
