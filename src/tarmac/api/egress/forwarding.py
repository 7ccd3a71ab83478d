"""Forwarder and Gateway: the contract between the controller and the agents. Not for users.

A Forwarder holds the rules of one ExternalService on one node, a Gateway those of one SourceIP on every node that may
own it. Between the two, a connection travels under a transit address, which represents one ExternalService, node,
Network and SourceIP. A gateway knows transit addresses but no Pods, since a Pod's address has a meaning only in its
Network.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.egress.sourceip import AddressLimits, Announce, ClassSubnet
from tarmac.api.shared import Conditions, Kind, ObservedGeneration, Protocol, Time

MAX_FORWARDER_RULES = 1498  # of the smallest rules in an object of MAX_VALUES with its metadata
_MAX_SHORT_MESSAGE = 500
_MAX_NAME = 253


class PeerReference(Struct):
    """A Gateway, seen from a Forwarder; or the reverse."""

    name: Annotated[str, Field("Its name.")]
    namespace: Annotated[str, Field("Its namespace.")] = ""


class _Rule(Struct):
    protocol: Annotated[Protocol, Field("The transport protocol.")] = "TCP"
    source_ip: Annotated[
        str, Field("Outgoing: the Pod, or at a gateway the transit address. Incoming: the server outside.")
    ] = msgspec.field(name="sourceip", default="")
    target_port: Annotated[
        int, Field("Outgoing: the port that Pods dial. Incoming: the Service's port.", minimum=0, maximum=65535)
    ] = msgspec.field(name="targetport", default=0)
    destination_ip: Annotated[
        str, Field("Outgoing: the server outside. Incoming: the endpoint, or at a gateway the transit address.")
    ] = msgspec.field(name="destinationip", default="")
    destination_port: Annotated[int, Field("Port it goes to.", minimum=0, maximum=65535)] = msgspec.field(
        name="destinationport", default=0
    )
    relay_port: Annotated[int, Field("Unused; there are no relay ports.", minimum=0, maximum=65535)] = msgspec.field(
        name="relayport", default=0
    )
    affinity: Annotated[
        Literal["None", "ClientIP"], Field("Incoming: whether a client's port counts when an endpoint is chosen.")
    ] = "None"


class ForwarderRule(_Rule):
    """One way through a node."""

    gateway: Annotated[PeerReference | None, Field("Gateway on the way.")] = None
    gateway_ip: Annotated[str, Field("The SourceIP: the address the outside sees.")] = msgspec.field(
        name="gatewayip", default=""
    )
    pod: Annotated[str, Field("UID of the Pod; the rule is for no other that has its address.")] = ""
    network: Annotated[str, Field("Network that the Pod's address is on, as namespace/name.")] = ""
    transit_ip: Annotated[str, Field("Address under which the connection travels between nodes.")] = msgspec.field(
        name="transitip", default=""
    )
    mark: Annotated[int, Field("Identity of the SourceIP.", minimum=0, maximum=65535)] = 0


class GatewayRule(_Rule):
    """One way through a gateway."""

    forwarder: Annotated[PeerReference | None, Field("Forwarder on the way.")] = None
    forwarder_ip: Annotated[str, Field("Address of the Pod's host.")] = msgspec.field(name="forwarderip", default="")
    weight: Annotated[int, Field("Incoming: endpoints behind the transit address.", minimum=0)] = 0


class RuleError(Struct):
    """A rule that could not be applied."""

    rule: Annotated[str, Field("Which rule.")]
    message: Annotated[str, Field("Why not.")]

    @property
    def short_message(self) -> str:
        """The message as repeated in conditions and events, truncated: a node writes it, and may write megabytes."""
        return self.message[:_MAX_SHORT_MESSAGE]


class ForwarderStatus(Struct):
    """The rules in force."""

    observed_generation: ObservedGeneration = 0
    applied_generation: Annotated[
        int, Field("The metadata.generation whose rules are in force.", minimum=0, format="int64")
    ] = 0
    rule_generation: Annotated[int, Field("Generation of the rules that were read.", format="int64")] = msgspec.field(
        name="rulegeneration", default=0
    )
    sync_generation: Annotated[int, Field("Generation of the rules that are in force.", format="int64")] = (
        msgspec.field(name="syncgeneration", default=0)
    )
    conditions: Conditions = []
    errors: Annotated[list[RuleError], Field("Rules that could not be applied.")] = []


class ExternalServiceReference(Struct):
    """The ExternalService that rules are made of."""

    namespace: Annotated[str, Field("Its namespace.")]
    name: Annotated[str, Field("Its name.")]
    uid: Annotated[str, Field("Its UID.")]


class ForwarderSpec(Struct):
    """Rules of one ExternalService on one node."""

    external_service: Annotated[ExternalServiceReference | None, Field("The owner of these rules.")] = None
    node_name: Annotated[str, Field("The node; its agent alone may write the status.")] = ""
    service_ip: Annotated[str, Field("The address that Pods dial.")] = msgspec.field(name="serviceip", default="")
    forwarder_ip: Annotated[str, Field("The node's InternalIP, where its tunnels end.")] = msgspec.field(
        name="forwarderip", default=""
    )
    egress_rules: Annotated[list[ForwarderRule], Field("From Pods to the server outside.")] = msgspec.field(
        name="egressrules", default_factory=list
    )
    ingress_rules: Annotated[list[ForwarderRule], Field("From the server outside to Pods.")] = msgspec.field(
        name="ingressrules", default_factory=list
    )


class Forwarder(Kind):
    """Rules of one ExternalService on one node. Made by the controller."""

    spec: Annotated[ForwarderSpec, Field("The rules.")]
    status: Annotated[ForwarderStatus | None, Field("What is applied.")] = None


class GatewayNode(Struct):
    """A node that may carry the address, that votes on who does, or whose Pods use it."""

    name: Annotated[str, Field("Name of the node.")]
    address: Annotated[str, Field("Its InternalIP.")] = ""
    city: Annotated[str, Field("Its city; tunnels between cities are encrypted.")] = ""
    public_key: Annotated[str, Field("Its X25519 key, by which its messages are known and its tunnels encrypted.")] = ""
    partner: Annotated[str, Field("The candidate that is to know its connections.")] = ""


class GatewaySpec(Struct):
    """Rules of one SourceIP, and the candidates for owning it."""

    gateway_ip: Annotated[str, Field("The SourceIP.")] = msgspec.field(name="gatewayip", default="")
    mark: Annotated[int, Field("Identity of the SourceIP.", minimum=0, maximum=65535)] = 0
    announce: Announce = "gratuitous"
    subnet: Annotated[ClassSubnet | None, Field("The segment that the address belongs to.")] = None
    limits: Annotated[AddressLimits | None, Field("Limits of the address's traffic.")] = None
    candidates: Annotated[
        list[GatewayNode], Field("Nodes that may carry it, the first in line first.", key="name")
    ] = []
    voters: Annotated[list[GatewayNode], Field("Nodes that promise it to one candidate at a time.", key="name")] = []
    leaving: Annotated[
        list[GatewayNode],
        Field(
            "Nodes that were candidates and have not acknowledged that they are none; voters wait for them.", key="name"
        ),
    ] = []
    senders: Annotated[
        list[GatewayNode], Field("Nodes with Pods that use it, according to its rules.", key="name")
    ] = []
    egress_rules: Annotated[list[GatewayRule], Field("From Pods to servers outside.")] = msgspec.field(
        name="egressrules", default_factory=list
    )
    ingress_rules: Annotated[list[GatewayRule], Field("From servers outside to Pods.")] = msgspec.field(
        name="ingressrules", default_factory=list
    )

    @property
    def concerned(self) -> frozenset[str]:
        """The names of the nodes that report a status for it."""
        return frozenset(each.name for each in (*self.candidates, *self.voters, *self.leaving))


class GatewayNodeStatus(Struct):
    """The state of the address on one node. Only that node writes it."""

    name: Annotated[str, Field("Name of the node.")]
    applied_generation: Annotated[
        int, Field("The metadata.generation whose rules are in force there.", minimum=0, format="int64")
    ] = 0
    rule_generation: Annotated[int, Field("Generation of the rules that were read.", format="int64")] = msgspec.field(
        name="rulegeneration", default=0
    )
    sync_generation: Annotated[int, Field("Generation of the rules that are in force.", format="int64")] = (
        msgspec.field(name="syncgeneration", default=0)
    )
    owner: Annotated[bool, Field("Whether it carries the address.")] = False
    epoch: Annotated[int, Field("Counts the changes of owner.", format="int64", minimum=0)] = 0
    since: Annotated[Time | None, Field("Since when it carries the address.")] = None
    former_owner: Annotated[str, Field("The previous owner, as far as it is known here.", max_length=_MAX_NAME)] = ""
    cause: Annotated[
        Literal["First", "HandedOver", "Silent", "Regained"] | None,
        Field("Why it has come here: first of all, given up, its owner silent, or after this node's own silence."),
    ] = None
    gap_milliseconds: Annotated[
        int | None, Field("From the last sign of the owner before until it was carried here.", minimum=0)
    ] = None
    synced_with: Annotated[str, Field("The node that knows its connections.", max_length=_MAX_NAME)] = ""
    errors: Annotated[list[RuleError], Field("Rules that could not be applied, and a foreign holder.")] = []


class GatewayStatus(Struct):
    """The rules in force, and the owner of the address."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    nodes: Annotated[list[GatewayNodeStatus], Field("The status of each node.", key="name")] = []


class Gateway(Kind):
    """Rules of one SourceIP. Made by the controller."""

    spec: Annotated[GatewaySpec, Field("The rules.")]
    status: Annotated[GatewayStatus | None, Field("What is applied.")] = None
