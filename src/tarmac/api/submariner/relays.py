"""Forwarder and Gateway: the contract between the controller and the agents. Not for users."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.shared import Conditions, Kind, ObservedGeneration, Protocol


class PeerReference(Struct):
    """A Gateway, seen from a Forwarder; or the reverse."""

    name: Annotated[str, Field("Its name.")]
    namespace: Annotated[str, Field("Its namespace.")] = ""


class _Rule(Struct):
    protocol: Annotated[Protocol, Field("The transport protocol.")] = "TCP"
    source_ip: Annotated[str, Field("Outgoing: the Pod. Incoming: the server outside.")] = msgspec.field(
        name="sourceip", default=""
    )
    target_port: Annotated[int, Field("Port that is dialled.", minimum=0, maximum=65535)] = msgspec.field(
        name="targetport", default=0
    )
    destination_ip: Annotated[str, Field("Outgoing: the server outside. Incoming: the endpoint.")] = msgspec.field(
        name="destinationip", default=""
    )
    destination_port: Annotated[int, Field("Port it goes to.", minimum=0, maximum=65535)] = msgspec.field(
        name="destinationport", default=0
    )
    relay_port: Annotated[int, Field("Unused; there are no relay ports.", minimum=0, maximum=65535)] = msgspec.field(
        name="relayport", default=0
    )
    mark: Annotated[int, Field("Identity of the SourceIP, carried with each packet.", minimum=0, maximum=65535)] = 0


class ForwarderRule(_Rule):
    """One way through a node."""

    gateway: Annotated[PeerReference | None, Field("Gateway on the way.")] = None
    gateway_ip: Annotated[str, Field("Address the outside sees.")] = msgspec.field(name="gatewayip", default="")


class GatewayRule(_Rule):
    """One way through a gateway."""

    forwarder: Annotated[PeerReference | None, Field("Forwarder on the way.")] = None
    forwarder_ip: Annotated[str, Field("Address of the Pod's host.")] = msgspec.field(name="forwarderip", default="")


class RuleError(Struct):
    """A rule that could not be applied."""

    rule: Annotated[str, Field("Which rule.")]
    message: Annotated[str, Field("Why not.")]


class RelayStatus(Struct):
    """What is applied."""

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


class ForwarderSpec(Struct):
    """Rules of one ExternalService on the hosts of its Pods."""

    egress_rules: Annotated[list[ForwarderRule], Field("From Pods to the server outside.")] = msgspec.field(
        name="egressrules", default_factory=list
    )
    ingress_rules: Annotated[list[ForwarderRule], Field("From the server outside to Pods.")] = msgspec.field(
        name="ingressrules", default_factory=list
    )
    forwarder_ip: Annotated[str, Field("Unused; every host forwards for its own Pods.")] = msgspec.field(
        name="forwarderip", default=""
    )


class Forwarder(Kind):
    """Rules of one ExternalService on the hosts of its Pods. Made by the controller."""

    spec: Annotated[ForwarderSpec, Field("The rules.")]
    status: Annotated[RelayStatus | None, Field("What is applied.")] = None


class GatewaySpec(Struct):
    """Rules of one gateway host."""

    egress_rules: Annotated[list[GatewayRule], Field("From Pods to servers outside.")] = msgspec.field(
        name="egressrules", default_factory=list
    )
    ingress_rules: Annotated[list[GatewayRule], Field("From servers outside to Pods.")] = msgspec.field(
        name="ingressrules", default_factory=list
    )
    gateway_ip: Annotated[str, Field("Address of the gateway host.")] = msgspec.field(name="gatewayip", default="")
    node_name: Annotated[str, Field("The gateway host; its agent alone may write the status.")] = ""


class Gateway(Kind):
    """Rules of one gateway host. Made by the controller."""

    spec: Annotated[GatewaySpec, Field("The rules.")]
    status: Annotated[RelayStatus | None, Field("What is applied.")] = None
