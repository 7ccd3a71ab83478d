"""GPUs of simulated nodes, as a real node's device plugin reports them: the same rows, metrics and events.

Nothing runs on them: a GPU that a pod holds shows the figures of a busy one. Which pod holds which GPU is decided when
the metrics are read, since nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tarmac.agent.devices.nvidia.gpumetrics import gpu_metrics
from tarmac.agent.devices.nvidia.gpureport import GpuReport, GpuRow, gpu_events
from tarmac.agent.devices.nvidia.xids import reason_of
from tarmac.agent.stats.summary import Sample
from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.kubernetes.runtimeclasses import PROXIED_PREFIX
from tarmac.api.schema import JsonObject
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.sim.nodes.locationobjects import SIMULATED_DRIVER
from tarmac.sim.nodes.model import FALLEN_OFF, NodeModel
from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.sim.nodes.podview import spec_of
from tarmac.sim.nodes.simulatednode import SimulatedNode

_MEMORY: Final = 80 << 30
_IDLE: Final = {"utilization": 0.0, "memory_used": 0, "power": 70.0, "temperature": 30}
_BUSY: Final = {"utilization": 0.6, "memory_used": 48 << 30, "power": 400.0, "temperature": 62}


def record_gpu_events(recorder: Recorder | None, node: SimulatedNode) -> None:
    """Record the events of a node's first report: it has registered. Without a recorder, they are dropped."""
    if recorder is None or not node.model.unhealthy:
        return
    about = InvolvedObject("v1", "Node", node.name, uid=node.name)
    for event in gpu_events(GpuReport(), report_of(node.name, node.model)):
        recorder.event(about, *event, instance=node.name)


class SimulatedGpus:
    """Which pods hold the GPUs of all nodes."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, str]] = {}  # uid of the pod by UUID, by node

    def samples(self, node: SimulatedNode) -> Iterator[Sample]:
        """Return the metrics of a node."""
        report = report_of(node.name, node.model)
        running = [pod for pod in node.pods() if pod.runs]
        held = self._hold(node.name, report.gpus, running)
        report.gpus = [replace(row, **_BUSY) if row.uuid in held else row for row in report.gpus]
        return gpu_metrics(node.name, lambda: report, lambda _: held, lambda: [_document(pod) for pod in running])()

    def _hold(self, node: str, rows: Sequence[GpuRow], pods: Sequence[SimulatedPod]) -> Mapping[str, str]:
        """Give each pod its GPUs: those it had, then healthy ones that are free, in the order of the pods' starts."""
        present = {pod.uid for pod in pods}
        held = {uuid: uid for uuid, uid in self._held.get(node, {}).items() if uid in present}
        for pod in sorted(pods, key=lambda each: (each.start_time, each.uid)):
            for resource, wanted in _gpus_of(pod).items():
                own = [row for row in rows if row.resource == resource]
                missing = wanted - sum(held.get(row.uuid) == pod.uid for row in own)
                free = [row for row in own if row.uuid not in held and not row.reason]
                held.update((row.uuid, pod.uid) for row in free[: max(0, missing)])
        self._held[node] = held
        return held


def report_of(node: str, model: NodeModel) -> GpuReport:
    """Return the report of a node whose GPUs are all free. Of each model the last ones are unhealthy."""
    rows: list[GpuRow] = []
    for resource, count in model.gpus.items():
        healthy = count - model.unhealthy.get(resource, 0)
        for number in range(count):
            rows.append(_row(node, len(rows), resource, 0 if number < healthy else model.xid))
    return GpuReport(SIMULATED_DRIVER, gpus=rows)


def _row(node: str, index: int, resource: str, xid: int) -> GpuRow:
    row = GpuRow(f"GPU-{node}-{index}", index, _product(resource), resource)
    if xid:
        row = replace(row, reason=reason_of(xid), xids={str(xid): 1})
    # One that is no longer on the bus answers no question.
    return row if xid == FALLEN_OFF else replace(row, memory_total=_MEMORY, **_IDLE)


def _product(resource: str) -> str:
    """Return the product name: NVIDIA H200 for datumcloud.com/nvidia-h200."""
    return f"NVIDIA {resource.removeprefix(PROXIED_PREFIX).removeprefix('tesla-').replace('-', ' ').upper()}"


def _gpus_of(pod: SimulatedPod) -> dict[str, int]:
    """Return the number of GPUs that a pod requests, by resource."""
    found: dict[str, int] = {}
    for container in spec_of(pod.asked)["containers"]:
        for name, amount in (container["resources"].get("limits") or {}).items():
            if name.startswith(PROXIED_PREFIX):
                found[name] = found.get(name, 0) + int(amount)
    return found


def _document(pod: SimulatedPod) -> JsonObject:
    """Return the metadata that metrics are labelled with. An Instance and its Pod have one name."""
    owners = [{"kind": "Instance", "name": pod.name}] if LABEL_WORKLOAD_NAME in pod.labels else []
    metadata = {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name, "labels": pod.labels}
    return {"metadata": {**metadata, "ownerReferences": owners}}
