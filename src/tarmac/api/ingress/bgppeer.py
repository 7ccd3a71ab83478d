"""BGPPeer: a router outside to which nodes announce public addresses."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from tarmac.api.declare import Field, Struct, Time
from tarmac.api.shared import Conditions, IPFamily, Kind, LabelSelector, ObservedGeneration
from tarmac.base.duration import parse_duration

MAX_ASN: Final = 4294967295
DEFAULT_RESTART: Final = "60s"
DEFAULT_PORT: Final = 179


class GracefulRestart(Struct):
    """The peer keeps routes while the speaker of a node restarts."""

    enabled: Annotated[bool | None, Field("By default true.")] = None
    restart_time: Annotated[str, Field("How long the peer keeps the routes; 60s by default, at most 4095s.")] = ""


class Bfd(Struct):
    """Bidirectional forwarding detection: a lost path is noticed within interval times multiplier."""

    interval: Annotated[str, Field("Time between two packets, 10ms to 10s; 300ms by default.")] = ""
    multiplier: Annotated[
        int | None, Field("Lost packets until the path is down; 3 by default.", minimum=1, maximum=255)
    ] = None


class BGPPeerSpec(Struct):
    """A router, and the nodes that have a session with it."""

    address: Annotated[str, Field("Address of the router.", min_length=1)]
    asn: Annotated[int, Field("Autonomous system of the router.", minimum=1, maximum=MAX_ASN, format="int64")]
    local_asn: Annotated[int, Field("Autonomous system of the nodes.", minimum=1, maximum=MAX_ASN, format="int64")] = (
        msgspec.field(name="localASN")
    )
    locations: Annotated[list[str], Field("Locations of the nodes; by default all.", unique=True, max_items=1024)] = []
    node_selector: Annotated[
        LabelSelector | None,
        Field("Nodes that have a session; by default those of submariner.io/gateway=true."),
    ] = None
    port: Annotated[int, Field("TCP port of the router.", minimum=1, maximum=65535, stored=True)] = DEFAULT_PORT
    families: Annotated[
        list[IPFamily],
        Field("Families of the announced routes; by default the family of the address.", unique=True, max_items=2),
    ] = []
    source_address: Annotated[str, Field("Address of the node from which it connects; by default chosen by route.")] = (
        ""
    )
    password_secret: Annotated[
        str, Field("Name of a Secret in kube-system; its key `password` authenticates the session (TCP MD5).")
    ] = ""
    hold_time: Annotated[str, Field("How long a silent session is kept, 3s to 65535s.", stored=True)] = "9s"
    graceful_restart: Annotated[
        GracefulRestart | None, Field("Whether the peer keeps routes while the speaker restarts; not beside bfd.")
    ] = None
    bfd: Annotated[Bfd | None, Field("Detection of lost paths; off by default. Not beside gracefulRestart.")] = None
    multihop: Annotated[bool, Field("Whether the router is not on a segment of the node.")] = False
    ttl_security: Annotated[
        bool | None,
        Field("Whether packets from more than one hop away are refused; by default true unless multihop."),
    ] = None
    pools: Annotated[
        list[str], Field("AddressPools announced to it; by default all with announce bgp.", unique=True, max_items=256)
    ] = []
    communities: Annotated[
        list[str],
        Field(
            "Communities of all routes to it, each as ASN:VALUE, beside those of the pool.", unique=True, max_items=64
        ),
    ] = []
    local_preference: Annotated[
        int | None,
        Field(
            "Preference of the routes; only where asn equals localASN.", minimum=0, maximum=4294967295, format="int64"
        ),
    ] = None
    max_prefixes: Annotated[
        int, Field("Most addresses that a node announces to it.", minimum=1, maximum=100_000, stored=True)
    ] = 1000


class PeerNode(Struct):
    """The session of a node. Each node writes its own entry."""

    name: Annotated[str, Field("Name of the node.", min_length=1, max_length=253)]
    state: Annotated[str, Field("State of the session, such as Established.", max_length=64)] = ""
    since: Annotated[Time | None, Field("Since when.")] = None
    announced: Annotated[int, Field("Addresses that it announces there.", minimum=0)] = 0
    last_error: Annotated[str, Field("The last error of the session.", max_length=1024)] = ""


class BGPPeerStatus(Struct):
    """The sessions as they are."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    nodes: Annotated[list[PeerNode], Field("Sessions by node.", key="name", max_items=4096)] = []


class BGPPeer(Kind):
    """A router outside to which nodes announce public addresses."""

    spec: Annotated[BGPPeerSpec, Field("The router and its sessions.")]
    status: Annotated[BGPPeerStatus | None, Field("The sessions as they are.")] = None


def restart_seconds(spec: BGPPeerSpec) -> int:
    """Return how long the peer keeps routes of a restarting speaker; 0: graceful restart is off.

    Without a word about it, it is on, unless BFD is: BFD ends with the speaker, and would end the restart.
    """
    graceful = spec.graceful_restart
    if graceful is None:
        return 0 if spec.bfd is not None else int(parse_duration(DEFAULT_RESTART))
    if graceful.enabled is False:
        return 0
    return int(parse_duration(graceful.restart_time or DEFAULT_RESTART))


def checks_ttl(spec: BGPPeerSpec) -> bool:
    """Return True if packets from more than one hop away are refused."""
    return not spec.multihop if spec.ttl_security is None else spec.ttl_security
