"""Converts Kubernetes objects into views for egress: Services with their endpoints, Pods, Nodes.

Controllers read the objects from caches, explanations and plans from a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address

import msgspec

from tarmac.api.conditions import is_true
from tarmac.api.egress.names import ANNOTATION_ALLOWED_FROM, Address
from tarmac.api.egress.nodefacts import interface_addresses, read_facts
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import (
    ANNOTATION_INTERFACES,
    ANNOTATION_NETWORK,
    LABEL_LOCATION,
    TOPOLOGY_CITY_CODE,
)
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.egress.views import EgressPod, EndpointView, PortView, ServiceView
from tarmac.decide.nodes import UNSCHEDULABLE
from tarmac.decide.pooled.nodeview import NodeView


def service_view(service: JsonObject, slices: Iterable[JsonObject]) -> ServiceView:
    """Return the view of a Service and the endpoints in its slices."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    ports = (
        PortView(each.get("name", ""), each.get("protocol", "TCP"), each["port"]) for each in spec.get("ports") or ()
    )
    return ServiceView(
        metadata["namespace"],
        metadata["name"],
        tuple(ports),
        tuple(endpoint for each in slices for endpoint in _endpoints(each)),
        spec.get("sessionAffinity") == "ClientIP",
    )


def allowed_from(service: JsonObject) -> str:
    """Return the namespaces that a Service grants its use to, as annotated."""
    return (service["metadata"].get("annotations") or {}).get(ANNOTATION_ALLOWED_FROM, "")


def _endpoints(slice_: JsonObject) -> Iterator[EndpointView]:
    metadata = slice_["metadata"]
    network = (metadata.get("annotations") or {}).get(ANNOTATION_NETWORK, "")
    ports = tuple(
        PortView(each.get("name") or "", each.get("protocol", "TCP"), each["port"])
        for each in slice_.get("ports") or ()
        if each.get("port")
    )
    for each in slice_.get("endpoints") or ():
        reference, conditions = each.get("targetRef") or {}, each.get("conditions") or {}
        own = reference.get("namespace", metadata["namespace"]) == metadata["namespace"]
        ours = reference.get("kind") == "Pod" and own
        ready = conditions.get("ready") is not False
        yield EndpointView(
            address=(each.get("addresses") or [""])[0],
            pod=reference.get("name", "") if ours else "",
            uid=reference.get("uid", "") if ours else "",
            network=network,
            ready=ready,
            serving=conditions.get("serving", ready) is not False,
            ports=ports,
        )


def pod_view(pod: JsonObject) -> EgressPod | None:
    """Return the view of a Pod; None if it has ended."""
    if (pod.get("status") or {}).get("phase") in TERMINAL:
        return None
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    addresses: dict[str, list[str]] = {}
    with suppress(msgspec.MsgspecError):
        for each in decode_interfaces((metadata.get("annotations") or {}).get(ANNOTATION_INTERFACES) or "[]"):
            addresses.setdefault(each.network, []).extend(own.partition("/")[0] for own in each.addresses)
    return EgressPod(metadata["uid"], spec.get("nodeName", ""), bool(spec.get("hostNetwork")), addresses)


def node_view(node: JsonObject) -> NodeView:
    """Return the view of a Node."""
    metadata, status = node["metadata"], node.get("status") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    addresses = (each["address"] for each in status.get("addresses") or () if each.get("type") == "InternalIP")
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    return NodeView(
        name=metadata["name"],
        address=next(addresses, ""),
        city=labels.get(TOPOLOGY_CITY_CODE, ""),
        location=labels.get(LABEL_LOCATION, ""),
        ready=is_true(node, "Ready"),
        cordoned=cordoned,
        cordoned_at=_cordoned_at(node) if cordoned else None,
        labels=labels,
        facts=read_facts(metadata.get("annotations") or {}),
    )


def _cordoned_at(node: JsonObject) -> float | None:
    """Return the time of the taint that the node controller adds to a cordoned node: nodes cannot change taints."""
    for taint in node["spec"].get("taints") or ():
        if taint.get("key") == UNSCHEDULABLE:
            with suppress(ValueError):
                return parse_rfc3339(taint.get("timeAdded") or "")
            return 0.0  # added by hand, without a time: the wait for a handover must end nevertheless
    return None


def node_addresses(node: JsonObject, view: NodeView) -> set[Address]:
    """Return every address of a node's own, from its status and from the facts that its agent reports."""
    found = {address for _, address, _ in interface_addresses(view.facts)}
    for each in (node.get("status") or {}).get("addresses") or ():
        if each.get("type") in ("InternalIP", "ExternalIP"):
            with suppress(ValueError):
                found.add(ip_address(each.get("address", "")))
    return found
