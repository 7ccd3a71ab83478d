"""Metrics of GPUs, from the plugin's report and the devices in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tarmac.agent.devices.nvidia.gpureport import GpuReport, GpuRow
from tarmac.agent.stats.summary import Sample
from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject

InUse = Callable[[str], Mapping[str, str]]
"""Returns the uid of the pod of each device of a resource."""


class _Holder(NamedTuple):
    namespace: str = ""
    pod: str = ""
    instance: str = ""
    workload: str = ""
    city: str = ""


def gpu_metrics(
    node: str, report: Callable[[], GpuReport], in_use: InUse, pods: Callable[[], Sequence[JsonObject]]
) -> Callable[[], Iterator[Sample]]:
    """Return a source of the figures of each GPU, labelled with the pod that has it."""

    def source() -> Iterator[Sample]:
        rows = report().gpus
        held = {resource: in_use(resource) for resource in {row.resource for row in rows}}
        known = {pod["metadata"]["uid"]: _holder(pod) for pod in pods()} if any(held.values()) else {}
        for row in rows:
            holder = known.get(held[row.resource].get(row.uuid, ""), _Holder())
            yield from _samples(row, {"node": node, **_labels(row), **holder._asdict()})

    return source


def _labels(row: GpuRow) -> dict[str, str]:
    return {"gpu": row.uuid, "index": str(row.index), "model": row.product, "resource": row.resource}


def _samples(row: GpuRow, labels: Mapping[str, str]) -> Iterator[Sample]:
    yield "tarmac_gpu_healthy", "gauge", {**labels, "reason": row.reason}, float(not row.reason)
    if row.utilization is not None:
        yield "tarmac_gpu_utilization_ratio", "gauge", labels, row.utilization
    if row.memory_used is not None:
        yield "tarmac_gpu_memory_bytes", "gauge", {**labels, "state": "used"}, row.memory_used
    if row.memory_total is not None:
        yield "tarmac_gpu_memory_bytes", "gauge", {**labels, "state": "total"}, row.memory_total
    if row.power is not None:
        yield "tarmac_gpu_power_watts", "gauge", labels, row.power
    if row.temperature is not None:
        yield "tarmac_gpu_temperature_celsius", "gauge", labels, row.temperature
    for xid, count in sorted(row.xids.items()):
        yield "tarmac_gpu_xid_total", "counter", {**labels, "xid": xid}, count


def _holder(pod: JsonObject) -> _Holder:
    metadata = pod["metadata"]
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("kind") == "Instance")
    labels = metadata.get("labels") or {}
    return _Holder(
        metadata["namespace"],
        metadata["name"],
        next((each["name"] for each in owners), ""),
        labels.get(LABEL_WORKLOAD_NAME, ""),
        labels.get(LABEL_CITY_CODE, ""),
    )
