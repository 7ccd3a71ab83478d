"""A node with its ledger, as shown by `tarmac node report` and served as `nodes/NAME/ledger`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tarmac.api.networking.names import LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.accounts import NodeLedger
from tarmac.decide.allocatable.nodestatus import ledger_of_node


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node. `counted`: its pods are known; if not, its committed amounts are unknown too."""

    name: str
    city: str
    ledger: NodeLedger
    counted: bool = True
    pressures: tuple[str, ...] = ()


def report_of(
    node: JsonObject, pods: Iterable[JsonObject] | None, used: Mapping[str, str] | None, cities: Mapping[str, str]
) -> NodeReport:
    """Return the report of a Node with the Pods on it, if they are known. `cities` maps Locations to cities."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return NodeReport(
        name=node["metadata"]["name"],
        city=node_city(node, cities),
        ledger=ledger_of_node(node, pods or (), used),
        counted=pods is not None,
        pressures=tuple(each["type"] for each in conditions if each["status"] == "True" and each["type"] != "Ready"),
    )


def location_cities(locations: Iterable[JsonObject]) -> dict[str, str]:
    """Return the cities of Locations by name."""
    topologies = {each["metadata"]["name"]: each["spec"].get("topology") or {} for each in locations}
    return {name: each.get(TOPOLOGY_CITY_CODE, "") for name, each in topologies.items()}


def node_city(node: JsonObject, cities: Mapping[str, str]) -> str:
    """Return the city of a node: by its own labels, else by its Location. `cities` maps Locations to cities."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels.get(TOPOLOGY_CITY_CODE) or cities.get(labels.get(LABEL_LOCATION, ""), "")
