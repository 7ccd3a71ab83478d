"""Partial API objects for networking: only the needed fields are decoded, so that thousands of objects are cheap.

Pods are in `members`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.declare import decode
from tarmac.api.networking.names import pods_network
from tarmac.api.networking.policy import NetworkPolicySpec
from tarmac.api.schema import JsonObject
from tarmac.base.names import address_range


class Fields(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of partial objects, with the field names of the API."""


class Metadata(Fields, frozen=True, gc=False):
    """Name, labels and annotations of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PolicyFacts(msgspec.Struct, frozen=True):
    """A NetworkPolicy, ours or that of `networking.k8s.io`. `network`: the one it is for; empty means each."""

    namespace: str
    name: str
    spec: NetworkPolicySpec
    limits_egress: bool
    limits_ingress: bool = True
    network: str = ""
    kind: str = "NetworkPolicy"

    @property
    def title(self) -> str:
        """Kind and key, for messages."""
        return f"{self.kind} {self.namespace}/{self.name}"


class ServicePortFacts(Fields, frozen=True, gc=False):
    """A port of a Service; the backends' port numbers are in its slices."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0


class _ClientIP(Fields, frozen=True, gc=False):
    timeout_seconds: int = 10800


class _AffinityConfig(Fields, frozen=True, gc=False):
    client_ip: _ClientIP | None = msgspec.field(name="clientIP", default=None)


class _ServiceSpec(Fields, frozen=True, gc=False):
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    cluster_ips: list[str] | None = msgspec.field(name="clusterIPs", default=None)
    ports: list[ServicePortFacts] | None = None
    session_affinity: str = "None"
    session_affinity_config: _AffinityConfig | None = None
    internal_traffic_policy: str = "Cluster"


class ServiceFields(Fields, frozen=True, gc=False):
    """A Service."""

    metadata: Metadata
    spec: _ServiceSpec

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def addresses(self) -> list[str]:
        """The cluster addresses; empty if the Service is headless or of type ExternalName."""
        if self.spec.type == "ExternalName":
            return []
        return [each for each in self.spec.cluster_ips or [self.spec.cluster_ip] if each not in ("", "None")]

    @property
    def local(self) -> bool:
        """True if only backends on the client's node are used, even if there are none."""
        return self.spec.internal_traffic_policy == "Local"

    @property
    def affinity(self) -> int:
        """Timeout of client affinity in seconds; 0 for none."""
        if self.spec.session_affinity != "ClientIP":
            return 0
        config = self.spec.session_affinity_config
        return (config.client_ip if config and config.client_ip else _ClientIP()).timeout_seconds


class _Conditions(Fields, frozen=True, gc=False):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class _Hint(Fields, frozen=True, gc=False):
    name: str


class _Hints(Fields, frozen=True, gc=False):
    for_zones: list[_Hint] | None = None
    for_nodes: list[_Hint] | None = None


class SliceEndpoint(Fields, frozen=True, gc=False):
    """An endpoint of a slice."""

    addresses: list[str]
    conditions: _Conditions = _Conditions()
    node_name: str | None = None
    hints: _Hints | None = None

    @property
    def zones(self) -> list[str]:
        """The zones in its hints; empty: all zones."""
        return [each.name for each in self.hints.for_zones or ()] if self.hints else []

    @property
    def nodes(self) -> list[str]:
        """The nodes in its hints; empty: all nodes."""
        return [each.name for each in self.hints.for_nodes or ()] if self.hints else []

    @property
    def ready(self) -> bool:
        """True if the endpoint takes new connections, which is the default."""
        return self.conditions.ready is not False

    @property
    def leaving(self) -> bool:
        """True if the endpoint still serves while terminating."""
        return bool(self.conditions.serving and self.conditions.terminating)


class _SlicePort(Fields, frozen=True, gc=False):
    port: int | None = None
    name: str = ""
    protocol: str = "TCP"


class SliceFacts(Fields, frozen=True, gc=False):
    """An EndpointSlice."""

    metadata: Metadata
    address_type: str
    endpoints: list[SliceEndpoint] | None = None
    ports: list[_SlicePort] | None = None


decode_service = msgspec.json.Decoder(ServiceFields).decode
decode_slice = msgspec.json.Decoder(SliceFacts).decode


class _PolicyObject(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any]


class _KubernetesPolicy(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any] = {}


_decode_policy = msgspec.json.Decoder(_PolicyObject).decode
_decode_kubernetes_policy = msgspec.json.Decoder(_KubernetesPolicy).decode


def policy_of(raw: bytes) -> PolicyFacts:
    """Decode a NetworkPolicy."""
    found = _decode_policy(raw)
    spec, namespace = decode(NetworkPolicySpec, found.spec), found.metadata.namespace
    network = f"{namespace}/{spec.network}" if spec.network else ""
    return PolicyFacts(namespace, found.metadata.name, spec, "egress" in found.spec, network=network)


def kubernetes_policy_of(raw: bytes) -> PolicyFacts:
    """Decode a NetworkPolicy of `networking.k8s.io`: rules for the namespace's default Network."""
    found = _decode_kubernetes_policy(raw)
    own, given = found.metadata, found.spec
    spec = {
        "selector": given.get("podSelector") or {},
        "ingress": [_ranges_of(rule, "from") for rule in given.get("ingress") or ()],
        "egress": [_ranges_of(rule, "to") for rule in given.get("egress") or ()],
    }
    types = given.get("policyTypes") or ()
    return PolicyFacts(
        own.namespace,
        own.name,
        decode(NetworkPolicySpec, spec),
        limits_egress="Egress" in types,
        limits_ingress="Ingress" in types,
        network=pods_network(own.namespace),
        kind="NetworkPolicy.networking.k8s.io",
    )


def _ranges_of(rule: JsonObject, field: str) -> JsonObject:
    """Return a rule with ranges as the kernel takes them: Kubernetes also stores `10.0.0.1/8` and leading zeros."""
    peers = [_range_of(peer) if peer.get("ipBlock") else peer for peer in rule.get(field) or ()]
    return {"ports": rule.get("ports") or [], field: peers}


def _range_of(peer: JsonObject) -> JsonObject:
    block = peer["ipBlock"]
    inner = [str(address_range(each)) for each in block.get("except") or ()]
    return {"ipBlock": {"cidr": str(address_range(block["cidr"])), "except": inner}}
