"""Groups of endpoints that can share an EndpointSlice: same family, same ports, same network.

As in Kubernetes: a pod counts once it has an address and until it has ended; it is ready if its Ready condition is true
and it is not terminating, or always if the Service publishes addresses that are not ready. Pods that resolve a named
port to different numbers are in different groups. Slices name the network of their addresses, because the same address
may exist on several.

`trafficDistribution` becomes hints, as in Kubernetes: each ready endpoint has a hint for its own zone, which is the
city of its node, and with `PreferSameNode` one for its own node. The datapath prefers the nearest endpoints, and falls
back to any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.decide.endpoints.ports import ResolvedPort, ResolvedPorts
from tarmac.decide.endpoints.servicefacts import EndpointPod, ServiceFacts

_NEAR = ("PreferClose", "PreferSameZone", "PreferSameNode")


class EndpointGroup(NamedTuple):
    """The properties that the endpoints of a slice share."""

    family: IPFamily
    network: str
    ports: tuple[ResolvedPort, ...]


class Endpoint(NamedTuple):
    """One pod behind a Service, identified by `uid`."""

    uid: str
    document: JsonObject


def grouped(
    service: ServiceFacts, pods: Iterable[EndpointPod], zones: Mapping[str, str] | None = None
) -> dict[EndpointGroup, list[Endpoint]]:
    """Return the endpoints of a Service, given the pods it selects and the zones of nodes."""
    found = Grouping(service, zones or {})
    for pod in pods:
        found.add(pod)
    return dict(found.groups())


class Grouping:
    """Builds the endpoints of a Service incrementally from its pods: there may be very many."""

    def __init__(self, service: ServiceFacts, zones: Mapping[str, str]) -> None:
        self._service = service
        self._zones = zones
        self._ports = ResolvedPorts(service)
        # Keyed by the index of the answer instead of an EndpointGroup: hashing one costs as much as it has ports.
        self._found: dict[tuple[IPFamily, str, int], list[Endpoint]] = {}

    def add(self, pod: EndpointPod) -> None:
        """Add a selected pod."""
        if pod.status.ended:
            return
        answer = self._ports.answer(pod)
        for family in self._service.spec.ip_families:
            addresses = pod.addresses(family)
            if addresses:
                self._found.setdefault((family, pod.network_of(addresses[0]), answer), []).append(
                    _endpoint(self._service, pod, addresses, self._zones.get(pod.spec.node_name, ""))
                )

    def groups(self) -> list[tuple[EndpointGroup, list[Endpoint]]]:
        """Return all groups, each once. A family without endpoints has one empty group."""
        answers = self._ports.answers
        found = [
            (EndpointGroup(family, on, answers[answer]), each) for (family, on, answer), each in self._found.items()
        ]
        present, families = {family for family, _, _ in self._found}, self._service.spec.ip_families
        return found + [(EndpointGroup(family, "", ()), []) for family in families if family not in present]


def _endpoint(service: ServiceFacts, pod: EndpointPod, addresses: list[str], zone: str) -> Endpoint:
    own, spec, terminating = pod.metadata, pod.spec, pod.going
    document: JsonObject = {
        "addresses": addresses[:1],
        "conditions": {
            "ready": service.spec.publish_not_ready_addresses or (pod.status.ready and not terminating),
            "serving": pod.status.ready,
            "terminating": terminating,
        },
        "targetRef": target_of(pod),
    }
    if spec.node_name:
        document["nodeName"] = spec.node_name
    if zone:
        document["zone"] = zone
    if document["conditions"]["ready"] and (hints := _hints(service.spec.traffic_distribution, spec.node_name, zone)):
        document["hints"] = hints
    if hostname := hostname_in(service, pod):
        document["hostname"] = hostname
    return Endpoint(own.uid, document)


def target_of(pod: EndpointPod) -> JsonObject:
    """Return the object reference of a pod for endpoints."""
    own = pod.metadata
    return {"kind": "Pod", "namespace": own.namespace, "name": own.name, "uid": own.uid}


def hostname_in(service: ServiceFacts, pod: EndpointPod) -> str:
    """Return a pod's DNS label below a Service's name; empty if it has none there."""
    return pod.spec.hostname if pod.spec.subdomain == service.metadata.name else ""


def _hints(distribution: str, node: str, zone: str) -> JsonObject:
    found: JsonObject = {}
    if zone and distribution in _NEAR:
        found["forZones"] = [{"name": zone}]
    if node and distribution == "PreferSameNode":
        found["forNodes"] = [{"name": node}]
    return found
