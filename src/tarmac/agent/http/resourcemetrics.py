"""`/metrics/resource`: the metrics of the summary that metrics servers read, in Prometheus' text format.

Names and labels are kubelet's; the two network metrics are Tarmac's, for autoscaling by traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339

_NANO = 1e9
_FAMILIES = {
    "container_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the container in core-seconds"),
    "container_memory_working_set_bytes": ("gauge", "Current working set of the container in bytes"),
    "container_start_time_seconds": ("gauge", "Start time of the container since unix epoch in seconds"),
    "node_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the node in core-seconds"),
    "node_memory_working_set_bytes": ("gauge", "Current working set of the node in bytes"),
    "pod_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the pod in core-seconds"),
    "pod_memory_working_set_bytes": ("gauge", "Current working set of the pod in bytes"),
    "pod_network_receive_bytes_total": ("counter", "Bytes that the pod has received"),
    "pod_network_transmit_bytes_total": ("counter", "Bytes that the pod has sent"),
    "resource_scrape_error": ("gauge", "1 if there was an error while getting container metrics, 0 otherwise"),
}

Sample = tuple[str, str, float, str]
"""Family, labels, value and timestamp."""


def resource_metrics(summary: JsonObject) -> str:
    """Return the exposition of one summary."""
    by_family: dict[str, list[Sample]] = {name: [] for name in _FAMILIES}
    for sample in _samples(summary):
        by_family[sample[0]].append(sample)
    lines: list[str] = []
    for name, (kind, meaning) in _FAMILIES.items():
        if by_family[name]:
            lines += (f"# HELP {name} {meaning}", f"# TYPE {name} {kind}")
            lines += (f"{name}{labels} {value:.12g}{at}" for _, labels, value, at in by_family[name])
    return "\n".join(lines) + "\n"


def _samples(summary: JsonObject) -> Iterator[Sample]:
    yield from _usage("node", "", summary.get("node", {}))
    for pod in summary.get("pods") or ():
        reference = pod["podRef"]
        place = f'namespace="{reference["namespace"]}",pod="{reference["name"]}"'
        for container in pod.get("containers") or ():
            labels = f'{{container="{container["name"]}",{place}}}'
            yield from _usage("container", labels, container)
            if container.get("startTime"):
                yield "container_start_time_seconds", labels, parse_rfc3339(container["startTime"]), ""
        yield from _usage("pod", f"{{{place}}}", pod)
        yield from _network(f"{{{place}}}", pod.get("network") or {})
    yield "resource_scrape_error", "", 0, ""


def _usage(of: str, labels: str, measured: JsonObject) -> Iterator[Sample]:
    cpu, memory = measured.get("cpu") or {}, measured.get("memory") or {}
    if "usageCoreNanoSeconds" in cpu:
        yield f"{of}_cpu_usage_seconds_total", labels, cpu["usageCoreNanoSeconds"] / _NANO, _at(cpu)
    if "workingSetBytes" in memory:
        yield f"{of}_memory_working_set_bytes", labels, memory["workingSetBytes"], _at(memory)


def _network(labels: str, network: JsonObject) -> Iterator[Sample]:
    interfaces: Iterable[JsonObject] = network.get("interfaces") or [network]
    for field, name in (("rxBytes", "receive"), ("txBytes", "transmit")):
        counted = [each[field] for each in interfaces if field in each]
        if counted:
            yield f"pod_network_{name}_bytes_total", labels, sum(counted), _at(network)


def _at(measured: JsonObject) -> str:
    # With its own time: figures are up to some seconds old, and a scraper would date them at the scrape.
    return f" {round(parse_rfc3339(measured['time']) * 1000)}" if measured.get("time") else ""
