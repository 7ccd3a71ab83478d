"""Composes the classes of QoS-class resources of a node. With the feature off, nothing is created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.node.runtimehealth import RuntimeHealth
from tarmac.agent.pods.manager import PodManager
from tarmac.agent.qosclasses.blockiofile import BadClassFile
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery, files_behind
from tarmac.agent.qosclasses.classevents import ClassEvents
from tarmac.agent.qosclasses.keeper import ClassKeeper
from tarmac.agent.qosclasses.kernel import KernelClasses
from tarmac.agent.qosclasses.resource import ClassResource
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.gates import CLASS_RESOURCES
from tarmac.base.signals import Signal
from tarmac.client.eventrecorder import Recorder
from tarmac.decide.qosclasses.offers import published
from tarmac.runtimes.interface import Runtime, RuntimeStatus


class NodeClasses:
    """Classes of a node. Created before any request to the server, since an invalid class file prevents the start."""

    def __init__(self, config: AgentConfig, hierarchy: Hierarchy) -> None:
        """Raises BadConfig."""
        self._config = config
        self._hierarchy = hierarchy
        self.warned: Signal[[str, str]] = Signal()
        """Reason and message of a warning about the node."""
        self.types_changed: Signal[[]] = Signal()
        """The types offered for whole pods have changed."""
        try:
            self.discovery = ClassDiscovery(
                config.kubelet.class_resources,
                hierarchy.block_io(),
                isinstance(hierarchy, V2),
                files_behind(config.runtime_socket),
                record_event=self.warned,
                changed=self.types_changed,
            )
        except BadClassFile as error:
            raise BadConfig(f"classResources.types.blockio.configFile: {error}") from error

    def keeper(
        self,
        runtime: Runtime,
        cgroups: KubePods,
        health: RuntimeHealth,
        recorder: Recorder,
        limits_changed: Signal[[str]],
    ) -> tuple[ClassKeeper, ClassEvents]:
        """Return the keeper of pods' classes, and the emitter of its events."""
        events = ClassEvents(recorder)
        kernel = KernelClasses(self._hierarchy, self.discovery.resctrl, lambda: self.discovery.definitions)
        node = self._config.node_name
        keeper = ClassKeeper(runtime, self.discovery, kernel, events, node, cgroups.path, health.own_kernel)
        limits_changed.subscribe(keeper.rewrite)
        return keeper, events

    def resource(self, pods: PodHub, health: RuntimeHealth) -> ClassResource:
        """Return the classes as a resource that is allocated to pods."""

        def own_kernel(pod: AgentPod) -> bool:
            try:
                return health.own_kernel(pods.handler(pod.raw))
            except ConfigMissing:
                return False  # its RuntimeClass may still come: until then there is no sandbox

        return ClassResource(self.discovery, self._config.node_name, pods.beside, own_kernel)

    def offered(self, status: RuntimeStatus | None) -> JsonObject:
        """Discover the classes again, and return the fields of the Node's status about them."""
        self.discovery.refresh(status)
        return published(self.discovery.catalogue.offered) if self.discovery.catalogue else {}

    def watch(self, pods: PodManager, clock: Clock) -> Callable[[], Awaitable[None]]:
        """Return a task that checks every pod with classes, at the interval of the node's status."""

        async def run() -> None:
            while True:
                await clock.sleep(self._config.kubelet.node_status_update_frequency)
                await pods.check_classes()

        return run


def node_classes(config: AgentConfig, hierarchy: Hierarchy) -> NodeClasses | None:
    """Return the classes of a node; None if the feature is off. Raises BadConfig."""
    return NodeClasses(config, hierarchy) if config.gates.enabled(CLASS_RESOURCES) else None
