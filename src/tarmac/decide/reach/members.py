"""Network view of pods: node, addresses, ports and labels.

An agent reads the Pods of its own node and the PodEndpoints of all other nodes; both become `NetworkPod`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from typing import Literal, NamedTuple

import msgspec

from tarmac.api.declare import decoder
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, pods_network
from tarmac.api.networking.podendpoint import PodEndpoint
from tarmac.decide.reach.partialobjects import Fields

Protocol = Literal["TCP", "UDP", "SCTP"]


class _ContainerPort(Fields, frozen=True, gc=False):
    container_port: int
    name: str = ""
    protocol: Protocol = "TCP"
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")


class _Container(Fields, frozen=True, gc=False):
    ports: list[_ContainerPort] | None = None


class _PodSpec(Fields, frozen=True, gc=False):
    node_name: str = ""
    host_network: bool = False
    containers: tuple[_Container, ...] = ()
    init_containers: list[_Container] | None = None


class _Address(Fields, frozen=True, gc=False):
    ip: str


class _PodStatus(Fields, frozen=True, gc=False):
    phase: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: list[_Address] | None = msgspec.field(name="hostIPs", default=None)


class _Annotations(Fields, frozen=True, gc=False):
    interfaces: str = msgspec.field(name=ANNOTATION_INTERFACES, default="")


class _Metadata(Fields, frozen=True, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None


class _Pod(Fields, frozen=True, gc=False):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class Published(NamedTuple):
    """A host port: published at one address of the node, or (empty) at all addresses of a family, 4 or 6."""

    protocol: Protocol
    host_port: int
    port: int
    family: int
    address: str


class NetworkPod(msgspec.Struct, frozen=True):
    """A pod with interfaces on networks, or with hostNetwork.

    `ports` by name and protocol; `hosts` are its node's addresses; `as_node` is the network in which a hostNetwork pod
    resolves services. The interfaces of a remote pod have only network and addresses.
    """

    namespace: str
    name: str
    uid: str
    node: str
    labels: dict[str, str]
    interfaces: tuple[AttachedInterface, ...]
    hosts: tuple[str, ...]
    ports: dict[tuple[str, str], int]
    published: tuple[Published, ...] = ()
    as_node: str = ""

    def addresses(self, network: str) -> list[str]:
        """Return the pod's addresses on a network, without prefix lengths."""
        return [each.partition("/")[0] for own in self.interfaces if own.network == network for each in own.addresses]


_decode_pod = msgspec.json.Decoder(_Pod).decode


def member_of(raw: bytes) -> NetworkPod | None:
    """Return the network view of a Pod; None if it has no interface, has no node yet, or has ended."""
    pod = _decode_pod(raw)
    text, own = (pod.metadata.annotations or _Annotations()).interfaces, pod.spec.host_network
    if not (text or own) or not pod.spec.node_name or pod.status.phase in TERMINAL:
        return None
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    named = [port for container in containers for port in container.ports or () if port.name]
    return NetworkPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        labels=pod.metadata.labels or {},
        interfaces=tuple(decode_interfaces(text)) if text and not own else (),
        hosts=tuple(each.ip for each in pod.status.host_ips or ())
        or ((pod.status.host_ip,) if pod.status.host_ip else ()),
        ports={(port.name, port.protocol): port.container_port for port in reversed(named)},
        published=() if own else tuple(_published(pod.spec)),
        as_node=pods_network(pod.metadata.namespace) if own else "",
    )


_decode_endpoint = decoder(PodEndpoint)


def remote_member(raw: bytes, node: str) -> NetworkPod | None:
    """Return the network view of a PodEndpoint; None if it is on `node`, has no interface or node, or has ended."""
    found = _decode_endpoint(raw)
    nowhere = not found.node or found.node == node or found.phase in TERMINAL
    if nowhere or not (found.interfaces or found.host_network):
        return None
    return NetworkPod(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        uid=found.metadata.uid,
        node=found.node,
        labels=found.metadata.labels,
        interfaces=tuple(AttachedInterface("", each.network, addresses=each.addresses) for each in found.interfaces),
        hosts=tuple(found.node_addresses),
        ports={(port.name, port.protocol): port.port for port in found.ports},
        as_node=pods_network(found.metadata.namespace) if found.host_network else "",
    )


def _published(spec: _PodSpec) -> Iterator[Published]:
    """Yield host ports as the kubelet does: of regular containers only. An invalid hostIP publishes nothing."""
    for port in (port for container in spec.containers for port in container.ports or () if port.host_port):
        with suppress(ValueError):
            address = ip_address(port.host_ip) if port.host_ip else None
            own = "" if address is None or address.is_unspecified else str(address)
            for family in (4, 6) if address is None else (address.version,):
                yield Published(port.protocol, port.host_port, port.container_port, family, own)
