"""Aggregates measurements: of nodes by city, of instances by workload.

A sum covers measured objects, and its share relates to their capacity: an unmeasured node counts on neither side. A
measurement older than a minute is not current.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.allocatable.report import node_city
from tarmac.decide.amounts import CPU, MEMORY, Amounts, add, amounts_of
from tarmac.decide.scheduling.demand import requests_of

MAX_AGE: Final = 60.0


@dataclass(slots=True)
class Usage:
    """A row: usage and capacity. `stale`: a part was measured too long ago."""

    name: str
    namespace: str = ""
    cities: list[str] = field(default_factory=list[str])
    node: str = ""
    instances: int | None = None
    used: Amounts = field(default_factory=Amounts)
    offered: Amounts = field(default_factory=Amounts)
    measured: bool = False
    stale: bool = False

    def share(self, resource: str) -> int | None:
        """Return the usage in percent of the capacity."""
        offered = self.offered.get(resource, 0)
        return round(100 * self.used.get(resource, 0) / offered) if self.measured and offered else None

    def take(self, sample: UsageSample | None, offered: Mapping[str, int]) -> None:
        """Add one object, measured or not."""
        if sample is None:
            return
        self.stale = self.stale or sample.stale
        if not sample.stale:
            self.measured = True
            add(self.used, sample.used)
            add(self.offered, offered)


@dataclass(frozen=True, slots=True)
class UsageSample:
    """One measurement."""

    used: Amounts
    stale: bool


def samples(metrics: Iterable[JsonObject], now: float) -> dict[str, UsageSample]:
    """Return NodeMetrics or PodMetrics by name, prefixed with the namespace if there is one."""
    found: dict[str, UsageSample] = {}
    for each in metrics:
        used = Amounts()
        for usage in [each["usage"]] if "usage" in each else [one["usage"] for one in each.get("containers") or ()]:
            add(used, {name: amount for name, amount in amounts_of(usage).items() if name in (CPU, MEMORY)})
        found[_key(each)] = UsageSample(used, now - parse_rfc3339(each["timestamp"]) > MAX_AGE)
    return found


def by_node(
    nodes: Iterable[JsonObject], measured: Mapping[str, UsageSample], pods: Iterable[JsonObject] | None,
    locations: Mapping[str, str],
) -> list[Usage]:  # fmt: skip
    """Return a row for each node."""
    rows: dict[str, Usage] = {}
    for node in nodes:
        name, status = node["metadata"]["name"], node.get("status") or {}
        rows[name] = row = Usage(name, cities=[node_city(node, locations)], instances=None if pods is None else 0)
        offered = amounts_of({name: (status.get("allocatable") or {}).get(name, "0") for name in (CPU, MEMORY)})
        row.take(measured.get(name), offered)
    for pod in instances_among(pods or ()):
        row = rows.get(pod["spec"].get("nodeName") or "")
        if row is not None and row.instances is not None:
            row.instances += 1
    return list(rows.values())


def by_city(nodes: Iterable[Usage]) -> list[Usage]:
    """Return a row for each city, from those of nodes."""
    rows: dict[str, Usage] = {}
    for node in nodes:
        (city,) = node.cities
        row = rows.setdefault(city, Usage(city, cities=[city]))
        if node.instances is not None:
            row.instances = (row.instances or 0) + node.instances
        row.stale = row.stale or node.stale
        if node.measured:
            row.take(UsageSample(node.used, stale=False), node.offered)
    return list(rows.values())


def by_instance(pods: Iterable[JsonObject], measured: Mapping[str, UsageSample]) -> list[Usage]:
    """Return a row for each instance that has not ended."""
    rows: list[Usage] = []
    for pod in instances_among(pods):
        own, node = pod["metadata"], pod["spec"].get("nodeName") or ""
        row = Usage(own["name"], own["namespace"], [own["labels"].get(LABEL_CITY_CODE, "")], node, 1)
        requests = requests_of(pod["spec"])
        row.take(measured.get(_key(pod)), {name: requests.get(name, 0) for name in (CPU, MEMORY)})
        rows.append(row)
    return rows


def by_workload(pods: Iterable[JsonObject], measured: Mapping[str, UsageSample]) -> list[Usage]:
    """Return a row for each workload that has instances."""
    found, rows = list(instances_among(pods)), dict[tuple[str, str], Usage]()
    for pod, one in zip(found, by_instance(found, measured), strict=True):
        name = pod["metadata"]["labels"][LABEL_WORKLOAD_NAME]
        row = rows.setdefault((one.namespace, name), Usage(name, one.namespace, instances=0))
        row.instances = (row.instances or 0) + 1
        row.cities = sorted({*row.cities, *one.cities})
        row.stale = row.stale or one.stale
        if one.measured:
            row.take(UsageSample(one.used, stale=False), one.offered)
    return list(rows.values())


def instances_among(pods: Iterable[JsonObject]) -> Iterable[JsonObject]:
    """Return pods of Instances that have not ended."""
    return (
        pod for pod in pods if LABEL_WORKLOAD_NAME in (pod["metadata"].get("labels") or {}) and not is_terminal(pod)
    )


def _key(obj: JsonObject) -> str:
    namespace = obj["metadata"].get("namespace", "")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else obj["metadata"]["name"]
