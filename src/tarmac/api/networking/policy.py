"""NetworkPolicy, and the rules that a single interface may carry. Semantics are those of Kubernetes' NetworkPolicy."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.api.declare import Field, IntOrString, Struct
from tarmac.api.shared import Conditions, Kind, LabelSelector, ObservedGeneration, Protocol


class PolicyPort(Struct):
    """Ports that traffic may go to."""

    protocol: Annotated[Protocol, Field("The transport protocol; by default TCP.")] = "TCP"
    port: Annotated[IntOrString | None, Field("A number or a port's name; unset means every port.")] = None
    end_port: Annotated[int | None, Field("Last port of a range that begins at `port`.", minimum=1, maximum=65535)] = (
        None
    )


class IPBlock(Struct):
    """A range of addresses."""

    cidr: Annotated[str, Field("The range, such as 192.168.1.0/24 or 2001:db8::/64.")]
    except_: Annotated[list[str], Field("Ranges within it that are not meant.")] = msgspec.field(
        name="except", default_factory=list
    )


class PolicyPeer(Struct):
    """Permitted peers: addresses, or instances by label. `ipBlock` stands alone."""

    ip_block: Annotated[IPBlock | None, Field("A range of addresses.")] = None
    pod_selector: Annotated[LabelSelector | None, Field("Instances and Pods by label.")] = None
    namespace_selector: Annotated[LabelSelector | None, Field("Namespaces by label; by default the policy's own.")] = (
        None
    )


class IngressRule(Struct):
    """Traffic that may come in: from any of the peers, to any of the ports. An empty list means all."""

    ports: Annotated[list[PolicyPort], Field("Ports; empty means every port.")] = []
    from_: Annotated[list[PolicyPeer], Field("Peers; empty means all sources or destinations.")] = msgspec.field(
        name="from", default_factory=list
    )


class EgressRule(Struct):
    """Traffic that may go out: to any of the peers, at any of the ports. An empty list means all."""

    ports: Annotated[list[PolicyPort], Field("Ports; empty means every port.")] = []
    to: Annotated[list[PolicyPeer], Field("Peers; empty means all sources or destinations.")] = []


class InterfacePolicy(Struct):
    """Rules of one interface. Traffic without a matching rule is denied, even if there are no rules."""

    ingress: Annotated[list[IngressRule], Field("Traffic that may come in.")] = []


class NetworkPolicySpec(Struct):
    """Rules, and the instances that they apply to."""

    selector: Annotated[LabelSelector, Field("Instances the policy applies to; empty means all in the namespace.")]
    network: Annotated[str, Field("Only for interfaces on this Network; by default on every one.")] = ""
    ingress: Annotated[list[IngressRule], Field("Traffic that may come in.")] = []
    egress: Annotated[list[EgressRule], Field("Traffic that may go out.")] = []


class NetworkPolicyStatus(Struct):
    """The policy as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []


class NetworkPolicy(Kind):
    """Rules for the traffic of instances."""

    spec: Annotated[NetworkPolicySpec, Field("Which instances, and which traffic.")]
    status: Annotated[NetworkPolicyStatus | None, Field("The policy as it is.")] = None
