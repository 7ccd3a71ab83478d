"""API objects as networks see them: a few fields each, read without the rest, so that thousands cost little."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.declare import decode
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.networking.policy import NetworkPolicySpec


class _Struct(msgspec.Struct, rename="camel", frozen=True, gc=False):
    pass


class _Metadata(_Struct, frozen=True, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _ContainerPort(_Struct, frozen=True, gc=False):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class _Container(_Struct, frozen=True, gc=False):
    ports: list[_ContainerPort] | None = None


class _PodSpec(_Struct, frozen=True, gc=False):
    node_name: str = ""
    containers: list[_Container] = []
    init_containers: list[_Container] | None = None


class _Address(_Struct, frozen=True, gc=False):
    ip: str


class _PodStatus(_Struct, frozen=True, gc=False):
    phase: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: list[_Address] | None = msgspec.field(name="hostIPs", default=None)


class _Pod(_Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class Member(msgspec.Struct, frozen=True):
    """A pod with interfaces on networks. `ports` by name and protocol; `hosts` are its node's addresses."""

    namespace: str
    name: str
    uid: str
    node: str
    labels: dict[str, str]
    interfaces: tuple[AttachedInterface, ...]
    hosts: tuple[str, ...]
    ports: dict[tuple[str, str], int]

    def addresses(self, network: str) -> list[str]:
        """Its addresses on a network, without prefix lengths."""
        return [each.partition("/")[0] for own in self.interfaces if own.network == network for each in own.addresses]


_decode_pod = msgspec.json.Decoder(_Pod).decode


def member_of(raw: bytes) -> Member | None:
    """The member that a Pod is; None when it has no interface, no node yet, or has run its course."""
    pod = _decode_pod(raw)
    text = (pod.metadata.annotations or {}).get(ANNOTATION_INTERFACES)
    if not text or not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return None
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    named = [port for container in containers for port in container.ports or () if port.name]
    return Member(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=pod.spec.node_name,
        labels=pod.metadata.labels or {},
        interfaces=tuple(decode_interfaces(text)),
        hosts=tuple(each.ip for each in pod.status.host_ips or ())
        or ((pod.status.host_ip,) if pod.status.host_ip else ()),
        ports={(port.name, port.protocol): port.container_port for port in reversed(named)},
    )


class Policy(msgspec.Struct, frozen=True):
    """A NetworkPolicy. `limits_egress`: it says something about egress, if only that nothing goes out."""

    namespace: str
    name: str
    spec: NetworkPolicySpec
    limits_egress: bool


class ServicePortFacts(_Struct, frozen=True, gc=False):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"


class _ClientIP(_Struct, frozen=True, gc=False):
    timeout_seconds: int = 10800


class _AffinityConfig(_Struct, frozen=True, gc=False):
    client_ip: _ClientIP | None = msgspec.field(name="clientIP", default=None)


class _ServiceSpec(_Struct, frozen=True, gc=False):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    cluster_ips: list[str] | None = msgspec.field(name="clusterIPs", default=None)
    ports: list[ServicePortFacts] | None = None
    session_affinity: str = "None"
    session_affinity_config: _AffinityConfig | None = None
    internal_traffic_policy: str = "Cluster"


class Service(_Struct, frozen=True, gc=False):
    """A Service."""

    metadata: _Metadata
    spec: _ServiceSpec

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def addresses(self) -> list[str]:
        """Its cluster addresses; none when it is headless or only a name."""
        if self.spec.type == "ExternalName":
            return []
        return [each for each in self.spec.cluster_ips or [self.spec.cluster_ip] if each not in ("", "None")]

    @property
    def affinity(self) -> int:
        """For how many seconds a client stays with its backend."""
        if self.spec.session_affinity != "ClientIP":
            return 0
        config = self.spec.session_affinity_config
        return (config.client_ip if config and config.client_ip else _ClientIP()).timeout_seconds


class _Conditions(_Struct, frozen=True, gc=False):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(_Struct, frozen=True, gc=False):
    """One backend."""

    addresses: list[str]
    conditions: _Conditions = _Conditions()
    node_name: str | None = None

    @property
    def ready(self) -> bool:
        """Whether it takes new connections; one that says nothing does."""
        return self.conditions.ready is not False

    @property
    def leaving(self) -> bool:
        """Whether it still serves though it is on its way out."""
        return bool(self.conditions.serving and self.conditions.terminating)


class _SlicePort(_Struct, frozen=True, gc=False):
    port: int | None = None
    name: str = ""
    protocol: str = "TCP"


class Slice(_Struct, frozen=True, gc=False):
    """An EndpointSlice."""

    metadata: _Metadata
    address_type: str
    endpoints: list[Endpoint] | None = None
    ports: list[_SlicePort] | None = None


decode_service = msgspec.json.Decoder(Service).decode
decode_slice = msgspec.json.Decoder(Slice).decode


class _PolicyObject(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any]


_decode_policy = msgspec.json.Decoder(_PolicyObject).decode


def policy_of(raw: bytes) -> Policy:
    """A NetworkPolicy from its encoded form."""
    found = _decode_policy(raw)
    spec = decode(NetworkPolicySpec, found.spec)
    return Policy(found.metadata.namespace, found.metadata.name, spec, "egress" in found.spec)
