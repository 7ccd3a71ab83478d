"""ExternalService: a server outside the platform, the instances that reach it, and their source addresses."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.api.declare import Field, IntOrString, Struct
from tarmac.api.shared import Conditions, Kind, LocalObjectReference, ObservedGeneration, Protocol

MAX_LIST_ITEMS = 64  # sources of one service, and ports


class ServiceReference(Struct):
    """A Service; the Pods behind it are meant."""

    name: Annotated[str, Field("Name of the Service.", min_length=1)]
    namespace: Annotated[
        str, Field("Its namespace; by default the object's own. Another needs a grant in that namespace.")
    ] = ""


class Source(Struct):
    """Pods that may use the service, and their outside address. Exactly one of sourceIP and sourceIPClaim is set."""

    service: Annotated[ServiceReference, Field("The Service of the source Pods.")]
    source_ip: Annotated[str, Field("Address the outside sees; a claim bound in the same namespace must hold it.")] = (
        msgspec.field(name="sourceIP", default="")
    )
    source_ip_claim: Annotated[LocalObjectReference | None, Field("Claim for the address the outside sees.")] = (
        msgspec.field(name="sourceIPClaim", default=None)
    )
    location: Annotated[str, Field("Only Pods in this Location; by default everywhere.")] = ""
    inbound: Annotated[
        bool | None, Field("Whether the target may open connections to the Service; by default true.")
    ] = None


class ServicePort(Struct, kw_only=True):
    """A port. Pods dial `targetPort`; the server outside listens on `port`."""

    name: Annotated[str, Field("Name of the port; needed when there are several.")] = ""
    protocol: Annotated[Protocol, Field("The transport protocol; by default TCP.", stored=True)] = "TCP"
    port: Annotated[int, Field("Port that the server outside listens on.", minimum=1, maximum=65535)]
    target_port: Annotated[
        IntOrString | None, Field("Port that Pods dial: a number, or the name of this port; by default `port`.")
    ] = None
    node_port: Annotated[int, Field("Accepted and ignored.", minimum=0, maximum=65535)] = 0
    app_protocol: Annotated[str, Field("Application protocol, for information.")] = ""


class GatewayChoice(Struct):
    """The place where the traffic leaves the platform."""

    location: Annotated[str, Field("Location of the gateway; by default from the address's class.")] = ""


class ExternalServiceSpec(Struct):
    """A server outside the platform, and its users."""

    target_ip: Annotated[str, Field("Address of the server. Only it may connect back.", min_length=1)] = msgspec.field(
        name="targetIP"
    )
    sources: Annotated[
        list[Source],
        Field("Sources that may use the service, each with its address.", min_items=1, max_items=MAX_LIST_ITEMS),
    ]
    ports: Annotated[list[ServicePort], Field("Ports of the server.", min_items=1, max_items=MAX_LIST_ITEMS)]
    gateway: Annotated[GatewayChoice | None, Field("Where the traffic leaves the platform.")] = None


class SourceStatus(Struct):
    """A source as it is."""

    service: Annotated[ServiceReference, Field("The Service.")]
    source_ips: Annotated[list[str], Field("Addresses the outside sees.")] = msgspec.field(
        name="sourceIPs", default_factory=list
    )
    gateway: Annotated[str, Field("Gateway that carries it now.")] = ""
    location: Annotated[str, Field("Location of the gateway.")] = ""
    pods_matched: Annotated[int, Field("Pods that are meant.", minimum=0)] = 0
    pods_programmed: Annotated[int, Field("Pods that can use it.", minimum=0)] = 0
    inbound_endpoints: Annotated[int, Field("Endpoints that the target can reach.", minimum=0)] = 0
    reason: Annotated[str, Field("Why it does not work, if so.")] = ""
    message: Annotated[str, Field("The same as a sentence, with the accepted values.")] = ""


class PortStatus(Struct):
    """A port as it is."""

    dial_port: Annotated[int, Field("Port that Pods dial.")]
    target_port: Annotated[int, Field("Port of the server.")]
    protocol: Annotated[Protocol, Field("The transport protocol.")]


class ExternalServiceSummary(Struct):
    """The object in a few words, for columns."""

    ports: Annotated[str, Field("Ports, such as 8000:8080/TCP.")] = ""
    sources: Annotated[str, Field("Programmed of all sources, such as 2/2.")] = ""
    gateway: Annotated[str, Field("Gateways that carry it now.")] = ""


class ExternalServiceStatus(Struct):
    """The service as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    addresses: Annotated[list[str], Field("The address that Pods dial, of the server's family; kept for life.")] = []
    hostname: Annotated[str, Field("Name that Pods dial.")] = ""
    networks: Annotated[
        list[str], Field("Networks that its source Pods are on, as namespace/name; the name is known there.")
    ] = []
    sources: Annotated[list[SourceStatus], Field("Each source as it is.")] = []
    ports: Annotated[list[PortStatus], Field("Each port as it is.")] = []
    summary: Annotated[ExternalServiceSummary | None, Field("The service in a few words.")] = None


class ExternalService(Kind):
    """A server outside the platform that instances reach, and that reaches them, under fixed addresses."""

    spec: Annotated[ExternalServiceSpec, Field("The server, and the sources that reach it.")]
    status: Annotated[ExternalServiceStatus | None, Field("The service as it is.")] = None
