"""Partial API objects for networking: only the needed fields are decoded, so that thousands of objects are cheap.

Pods are in `members`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.declare import decode
from tarmac.api.networking.policy import NetworkPolicySpec


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
    """A NetworkPolicy. `limits_egress`: its spec has `egress`, even if empty."""

    namespace: str
    name: str
    spec: NetworkPolicySpec
    limits_egress: bool

    @property
    def title(self) -> str:
        """Kind and key, for messages."""
        return f"NetworkPolicy {self.namespace}/{self.name}"


class ServicePortFacts(Fields, frozen=True, gc=False):
    """A port of a Service; the backends' port numbers are in its slices."""

    port: int
    name: str = ""
    protocol: str = "TCP"


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


class ServiceFacts(Fields, frozen=True, gc=False):
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


class Backend(Fields, frozen=True, gc=False):
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
    endpoints: list[Backend] | None = None
    ports: list[_SlicePort] | None = None


decode_service = msgspec.json.Decoder(ServiceFacts).decode
decode_slice = msgspec.json.Decoder(SliceFacts).decode


class _PolicyObject(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any]


_decode_policy = msgspec.json.Decoder(_PolicyObject).decode


def policy_of(raw: bytes) -> PolicyFacts:
    """Decode a NetworkPolicy."""
    found = _decode_policy(raw)
    spec = decode(NetworkPolicySpec, found.spec)
    return PolicyFacts(found.metadata.namespace, found.metadata.name, spec, "egress" in found.spec)
