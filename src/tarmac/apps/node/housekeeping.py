"""Composes metrics, eviction, and garbage collection of a node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from tarmac.agent.collection.deadcontainers import DeadContainers
from tarmac.agent.collection.logs import LogRotation
from tarmac.agent.collection.orphans import OrphanCollector
from tarmac.agent.collection.unusedimages import ImageCollector
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.eviction.evictionmanager import EvictionManager
from tarmac.agent.eviction.judgement import Judgement
from tarmac.agent.eviction.signals import EvictionSignals
from tarmac.agent.model.podhub import PodHub
from tarmac.agent.node.nodehub import NodeHub
from tarmac.agent.stats.agent import pod_metrics, process_metrics
from tarmac.agent.stats.ledgermetrics import ledger_metrics
from tarmac.agent.stats.podstats import PodStats
from tarmac.agent.stats.summary import UNLABELLED, Sample
from tarmac.api.kubernetes.core.nodeclasses import offered_classes
from tarmac.api.schema import JsonObject
from tarmac.apps.node.foundations import Machinery
from tarmac.base.clock import Clock
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.decide.allocatable.accounts import NodeLedger
from tarmac.decide.allocatable.podentries import pod_entries
from tarmac.decide.amounts import MEMORY
from tarmac.volumes.interface import Volumes


class Housekeeping:
    """Evicts pods under pressure, and removes images, dead containers and old logs."""

    def __init__(
        self,
        config: AgentConfig,
        parts: Machinery,
        volumes: Volumes,
        pods: PodHub,
        node: NodeHub,
        recorder: Recorder,
        about: InvolvedObject,
        clock: Clock,
    ) -> None:
        self._config = config
        self._parts = parts
        self._pods = pods
        self._node = node
        self._clock = clock
        self.images = ImageCollector(parts.runtime, config.kubelet, clock, recorder, about, parts.health.sandbox_image)
        self.stats = PodStats(parts.runtime, volumes, config.pod_logs_dir, clock)
        self._containers = DeadContainers(parts.runtime, config.pod_logs_dir, clock)
        self.evictions = EvictionManager(
            signals=self._signals(),
            judgement=Judgement(config.thresholds, config.kubelet.eviction_pressure_transition_period),
            pods=pods,
            stats=self.stats,
            images=self.images,
            containers=self._containers,
            recorder=recorder,
            about=about,
            clock=clock,
            soft_grace=config.kubelet.eviction_max_pod_grace_period,
            changed=node.wake,
        )

    def pressures(self) -> frozenset[str]:
        """Return the pressure conditions of the node."""
        return self.evictions.conditions

    def metrics(self) -> list[Callable[[], Iterable[Sample]]]:
        """Return the sources of metrics."""
        running = pod_metrics(self._config.node_name, self._pods.pods)
        return [process_metrics, running, self.evictions.metrics, self._own, ledger_metrics(self._ledger)]

    def chores(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the tasks to run, by name."""
        config = self._config
        return {
            "eviction": self.evictions.run,
            "images": self.images.run,
            "containers": self._containers.run,
            "logs": LogRotation(self._parts.runtime, config.pod_logs_dir, config.kubelet, self._clock).run,
        }

    def leftovers(self) -> OrphanCollector:
        """Return the orphan cleanup. It must run only once all pods are known."""
        return OrphanCollector(
            self._parts.runtime, self._parts.cgroups, self._config.pod_logs_dir, self._pods.pods, self._clock
        )

    def _signals(self) -> EvictionSignals:
        return EvictionSignals(
            self._parts.stats,
            self._config.root_dir,
            lambda: self.images.mount_point,
            lambda: self._parts.sizes.enforced[MEMORY],
            self._parts.cgroups.memory_used,
        )

    def _ledger(self) -> NodeLedger:
        """Return the ledger with the pods' allocated amounts, not their current requests, and the Node's classes."""
        offered = offered_classes(self._node.node())
        entries = pod_entries(map(self._with_notes, self._pods.allocated()), offered.pod)
        return self._parts.sizes.ledger(entries, offered)

    def _with_notes(self, pod: JsonObject) -> JsonObject:
        """Add the pod's exclusive CPUs, which the server may not know yet, and never does for a static pod."""
        metadata: JsonObject = pod["metadata"]
        notes = self._parts.cpus.notes(metadata["uid"]) if self._parts.cpus else {}
        if not notes:
            return pod
        return {**pod, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **notes}}}

    def _own(self) -> Iterator[Sample]:
        yield "kubelet_image_garbage_collected_total", "counter", UNLABELLED, self.images.removed
