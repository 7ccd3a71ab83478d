"""Tunnels between nodes as Node objects report them: one annotation of the agent, one condition with its message.

The message of the condition serves users as well as `why --reach` and `tarmac status`, so it is formatted and parsed
here. Nodes write it, so the parser accepts any text and finds no tunnels in most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tarmac.api.networking.names import GROUP

ANNOTATION_TUNNEL: Final = f"{GROUP}/tunnel"
"""Annotation of a Node: its tunnel end, as JSON of `NodeTunnel`. Its own agent writes it."""

TUNNELS_REACHABLE: Final = "TunnelsReachable"
"""Condition of a Node: False while another node cannot be reached through its tunnel, or cannot reach this one."""

MAX_NAMED: Final = 20
_MAX_LENGTH: Final = 1024
_MAX_MESSAGE: Final = 8192
_CLOSED: Final = re.compile(r"(\d{1,5})/udp (to or from|to|from) (\S{1,253}) is closed")

Direction = Literal["to", "from", "to or from"]


class NodeTunnel(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The tunnel end of a node. `probes`: its agent answers probes.

    `encryption`: the implementation, `none` if there is none; empty if the agent is older than encryption. The key is a
    public X25519 key, in base64.
    """

    probes: bool = False
    encryption: Literal["", "kernel", "userspace", "none"] = ""
    public_key: str = ""


class ClosedTunnel(NamedTuple):
    """A peer and the direction, seen from the node that reports it, in which packets to a UDP port are lost."""

    peer: str
    direction: Direction
    port: int

    def __str__(self) -> str:
        return f"{self.port}/udp {self.direction} {self.peer} is closed"


class ClosedWay(NamedTuple):
    """A direction between two nodes in which packets to a UDP port are lost."""

    sender: str
    receiver: str
    port: int


_decode = msgspec.json.Decoder(NodeTunnel).decode


def read_tunnel(text: str) -> NodeTunnel:
    """Parse the annotation; return the empty value if it is missing or unreadable."""
    try:
        return _decode(text) if 0 < len(text) <= _MAX_LENGTH else NodeTunnel()
    except msgspec.DecodeError:
        return NodeTunnel()


def write_tunnel(tunnel: NodeTunnel) -> str:
    """Return the text of the annotation."""
    return msgspec.json.encode(tunnel).decode()


def closed_message(closed: Iterable[ClosedTunnel]) -> str:
    """Return the message of the condition while some tunnels are closed. It names at most `MAX_NAMED`."""
    named = sorted(closed)
    more = len(named) - MAX_NAMED
    return "; ".join([*map(str, named[:MAX_NAMED]), *([f"and {more} more"] if more > 0 else ())])


def closed_tunnels(node: Mapping[str, Any]) -> Sequence[ClosedTunnel]:
    """Return the closed tunnels that a Node reports; none while it is not Ready, since its report is stale then."""
    condition = _condition(node, TUNNELS_REACHABLE)
    if condition.get("status") != "False" or _condition(node, "Ready").get("status") != "True":
        return ()
    found = _CLOSED.findall((condition.get("message") or "")[:_MAX_MESSAGE])[:MAX_NAMED]
    return [ClosedTunnel(peer, direction, int(port)) for port, direction, peer in found]


def closed_ways(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[ClosedWay]:
    """Return the directions between two Nodes that either of them reports as closed.

    A report with a definite direction takes precedence over one without.
    """
    names = here["metadata"]["name"], there["metadata"]["name"]
    reports = {
        (each.direction, own, peer, each.port)
        for node, own, peer in ((here, *names), (there, *reversed(names)))
        for each in closed_tunnels(node)
        if each.peer == peer
    }
    sure = {
        ClosedWay(own, peer, port) if direction == "to" else ClosedWay(peer, own, port)
        for direction, own, peer, port in reports
        if direction != "to or from"
    }
    one, other = names
    return sorted(
        sure or {way for *_, port in reports for way in (ClosedWay(one, other, port), ClosedWay(other, one, port))}
    )


def reports_open(node: Mapping[str, Any]) -> bool:
    """Return True if a Node reports that every tunnel it probes is open."""
    states = (_condition(node, each).get("status") for each in (TUNNELS_REACHABLE, "Ready"))
    return all(state == "True" for state in states)


def _condition(node: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})
