"""Nodes that announce public addresses by BGP: BIRD on nodes 3 and 4, and a router that is the LAN's server too.

All of it is watched by the LAN's eye.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from tarmac.datapath.egress import Transport
from tarmac.datapath.ingress import IngressState
from tarmac.datapath.linux.ingress.speaker import BirdSpeaker
from tarmac.datapath.linux.ingress.speakerconfig import TABLE
from tarmac.datapath.speaker import BgpSession, RoutedRanges, SessionReport, SpeakerState
from tests.datapath.egress_worlds import GATEWAYS
from tests.datapath.ingress_worlds import PORT, Call, IngressWorld, Unreachable, Way, state, talking
from tests.datapath.routers import NODE_ASN, ROUTER_ASN, Router, find_bird, until
from tests.datapath.segment import TARGET

ROUTED, ROUTED6 = "203.0.113.10", "2001:db8:113::10"
RANGES = ("203.0.113.0/24", "2001:db8:113::/64")
WAYS = (Way(ROUTED, ("a", "c")), Way(ROUTED6, ("a", "c")))
_PROTOCOLS: tuple[Transport, ...] = ("TCP", "UDP")
NODES = {"three": "192.168.122.3", "four": "192.168.122.4"}


def session(number: int, **changes: object) -> BgpSession:
    """Return the session of a node with the router."""
    own = BgpSession(
        "edge",
        TARGET,
        ROUTER_ASN,
        NODE_ASN,
        (4, 6),
        (RoutedRanges(RANGES, ((65000, 7),)),),
        next_hops=((6, f"fd00:122::{number}"),),
        restart=60,
        checks_ttl=True,
    )
    return replace(own, **changes)


def routed(node: int, *ways: Way) -> IngressState:
    """Return the state of a node with addresses that nodes 3 and 4 announce, beside those of the LAN."""
    made = state(node, *ways)
    addresses = [
        replace(each, outside=None, routed=node in GATEWAYS) if each.address in (ROUTED, ROUTED6) else each
        for each in made.addresses
    ]
    return replace(made, addresses=tuple(addresses), ranges=(*made.ranges, *RANGES))


class Edge:
    """The nodes with their speakers, and the router."""

    def __init__(self, street: IngressWorld) -> None:
        self.street, self.lab = street, street.lan.lab
        street.lan.routed |= {(node, each) for node in GATEWAYS for each in (ROUTED, ROUTED6)}

    def speaker(self, node: int) -> BirdSpeaker:
        made = self.street.real.node(node).ingress.speaker
        made.program = find_bird()
        return made

    async def apply(self, *ways: Way) -> None:
        for node in (1, 2, 3, 4):
            assert not await self.street.real.node(node).ingress.apply(routed(node, *ways))

    async def speak(self, *nodes: int, addresses: Sequence[str] = (ROUTED, ROUTED6), **changes: object) -> None:
        for node in nodes:
            await self.speaker(node).ensure(SpeakerState(f"10.255.0.{node}", (session(node, **changes),)))
            await self.speaker(node).announce(addresses)

    def router(self, **changes: object) -> Router:
        return Router(self.street.lan.target, self.lab.folder, TARGET, NODES, **changes)  # type: ignore[arg-type]

    def process(self, node: int) -> int:
        """Return the process of a node's BIRD."""
        return int((self.lab.folder / f"run-{node}" / "speaker.pid").read_text())

    def routes(self, node: int) -> str:
        """Return the routes of a node that decide about packets."""
        machine = self.lab.machine(node)
        said = "".join(self.lab.command(machine, f"ip {each} route show table all") for each in ("-4", "-6"))
        return "\n".join(sorted(line for line in said.splitlines() if f"table {TABLE}" not in line))

    async def reported(self, node: int, condition: Callable[[SessionReport], bool]) -> None:
        """Wait until a node reports its session so."""
        async with asyncio.timeout(30):
            while not ((found := (await self.speaker(node).reports()).get("edge")) and condition(found)):
                await asyncio.sleep(0.02)


@asynccontextmanager
async def calls(edge: Edge, *, each: int = 3) -> AsyncGenerator[list[Call | Unreachable]]:
    """Open connections from outside, until the block ends."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(talking(edge.street.lan, edge.street.lan.target, address, PORT, protocol))
            for address in (ROUTED, ROUTED6)
            for protocol in _PROTOCOLS
            for _ in range(each)
        ]


async def answered(made: list[Call | Unreachable]) -> bool:
    """Return True if each is answered, and as itself. A datagram lost at a change of routes is sent again."""
    found = [await each() or await each() for each in made]
    return all(
        heard is not None and isinstance(call, Call) and heard.seen == call.own[0]
        for heard, call in zip(found, made, strict=True)
    )


async def both_lead(router: Router, *nodes: int) -> None:
    """Wait until the router leads both addresses to exactly these nodes."""
    wanted = {f"192.168.122.{each}" for each in nodes}, {f"fd00:122::{each}" for each in nodes}
    await until(lambda: (router.next_hops(ROUTED), router.next_hops(ROUTED6)) == wanted, f"routes to {nodes}")
