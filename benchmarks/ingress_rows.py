"""Connections from outside, measured with packets in network namespaces: every bar beside its figure.

Machines are shared, so throughput and round trips are ratios and differences to a plain link of the same minute, in
turns, and the rate of other connections during a flood is compared with that during the same flood to a host that
drops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from time import perf_counter

from benchmarks.ingress_agent import agent_rows
from benchmarks.ingress_many import many_rows
from benchmarks.ingress_objects import object_rows
from benchmarks.processes import resident_bytes
from benchmarks.report import Row
from benchmarks.wireends import flooding, measured, serving
from tarmac.datapath.linux.naming import outside_mac
from tests.datapath.bgp_worlds import NODES, ROUTED, WAYS, Edge
from tests.datapath.conftest import real_world
from tests.datapath.ingress_worlds import (
    BASIC,
    PORT,
    PUBLIC1,
    PUBLIC2,
    Heard,
    IngressWorld,
    at,
    ingress_world,
    talking,
    without,
)
from tests.datapath.routers import routing, until
from tests.datapath.segment import INTERFACE, STRANGER, TARGET

Say = Callable[[str], None]
WIRE = 9000
PAIRS, PINGS = 10, 2000
CONNECTIONS = 64
SYNS = 100_000
NOT_HERE = (
    "calls every 10 ms while a city is lost, drained and comes back",
    "connections while speaker, agent and host are killed",
)
_DIRECT = ("10.99.0.1", "10.99.0.2")
_FLOODED = without(
    without(BASIC, PUBLIC1, pods=("c",), ports=(("TCP", WIRE, WIRE), ("TCP", PORT, 81)), router=TARGET),
    PUBLIC2,
    pods=("b",),
    ports=(("TCP", WIRE, WIRE),),
)
"""One address leads to a pod of node 2, another one to a pod of node 1."""


def ingress_rows(say: Say) -> list[Row]:
    """Needs root."""
    for each in NOT_HERE:
        say(f"NOT MEASURED here, but by the tests of real nodes: {each}")
    return [
        *asyncio.run(_with_packets(say)),
        *asyncio.run(_routes(say)),
        *asyncio.run(many_rows(say)),
        *object_rows(say),
        *agent_rows(say),
    ]


async def _with_packets(say: Say) -> list[Row]:
    async with ingress_world(real_world()) as street:
        street.lan.look_away()  # it would capture millions of frames
        return [*await _connections(street, say), *await _way(street, say), *await _flood(street, say)]


async def _way(street: IngressWorld, say: Say) -> list[Row]:
    """Measure throughput and round trips to a pod of another node than the gateway's, in turns with a plain link."""
    say(f"sending through a gateway to a pod of another node, and directly, {PAIRS} times each")
    lab, client, pod = street.lan.lab, street.lan.target, street.real.namespace("c")
    lab.command(client, f"ip link add d0 type veth peer name d1 netns {pod}")
    for namespace, name, address in ((client, "d0", _DIRECT[0]), (pod, "d1", _DIRECT[1])):
        lab.command(namespace, f"ip address add {address}/24 dev {name}")
        lab.command(namespace, f"ip link set {name} up")
    await street.apply(*_FLOODED)
    street.carry(3, PUBLIC1, PUBLIC2, seconds=600)
    ratios, added, rates = list[float](), list[float](), list[float]()
    with serving(pod, WIRE):
        for _ in range(PAIRS):
            ours = await measured(client, "stream", PUBLIC1, WIRE, 0.5)
            ratios.append(ours / await measured(client, "stream", _DIRECT[1], WIRE, 0.5))
            rates.append(ours / 1e9)
            ours = await measured(client, "ping", PUBLIC1, WIRE, PINGS)
            added.append(ours - await measured(client, "ping", _DIRECT[1], WIRE, PINGS))
    return [
        Row("throughput to a pod of another node ÷ direct veth", "ratio", ratios, 0.5, at_least=True),
        Row("throughput to a pod of another node", "Gbit/s", rates),
        Row("added round trip, p50", "µs", added, 60),
    ]


async def _flood(street: IngressWorld, say: Say) -> list[Row]:
    say(f"{SYNS:,} SYNs a second to one address, and to a host that drops them, beside a stream to another address")
    lab, target = street.lan.lab, street.lan.target
    host = street.lan.stranger
    shown = lab.command(host, "ip -o link show eth0")
    sink = shown.partition("link/ether ")[2].split()[0]
    lab.command(host, "nft add table netdev sink")
    hook = "type filter hook ingress device eth0 priority 0; policy drop;"
    lab.command(host, f"nft add chain netdev sink drops {{ {hook} }}")
    gateway = outside_mac(f"ingress\0{at(3)}", INTERFACE)
    alone, beside, there, left, sent = (list[float]() for _ in range(5))
    with serving(street.real.namespace("b"), WIRE):
        for _ in range(3):
            alone.append(await measured(target, "stream", PUBLIC2, WIRE, 2.0))
            with flooding(target, sink, STRANGER, PORT, SYNS):
                beside.append(await measured(target, "stream", PUBLIC2, WIRE, 2.0))
            before = street.tracked(3)
            with flooding(target, gateway, PUBLIC1, PORT, SYNS) as reached:
                there.append(await measured(target, "stream", PUBLIC2, WIRE, 2.0))
                left.append(max(0, street.tracked(3) - before - 1))  # the stream is one
            sent += reached
    return [
        Row(f"flood of up to {SYNS:,} SYNs a second to one address: sent", "per second", sent),
        Row("entries that the flood leaves at the gateway", "entries", left, 0),
        Row(
            "another address's throughput meanwhile ÷ with the flood at a host that drops it",
            "ratio",
            [mine / other for mine, other in zip(there, beside, strict=True)],
            0.9,
            at_least=True,
        ),
        Row("the same ÷ without a flood", "ratio", [mine / other for mine, other in zip(there, alone, strict=True)]),
    ]


async def _connections(street: IngressWorld, say: Say) -> list[Row]:
    """Count connections before and after each change."""
    say(f"{CONNECTIONS} connections, while their gateway drains, is lost, and an endpoint is added")
    lost: dict[str, float] = {}
    one = without(BASIC, PUBLIC1, pods=("a",))
    await street.apply(*one)
    street.carry(3, PUBLIC1, seconds=600)
    async with _calls(street) as ask:
        await street.apply(*BASIC)
        lost["an endpoint is added"] = await ask()
    async with _calls(street) as ask:
        street.drop(3, PUBLIC1)
        street.carry(4, PUBLIC1, seconds=600)
        lost["a gateway drains"] = await ask()
        street.lan.lab.command(street.lan.bridge, "ip link set g4 down")
        street.carry(3, PUBLIC1, seconds=600)
        lost["a gateway is cut off"] = await ask()
    street.lan.lab.command(street.lan.bridge, "ip link set g4 up")
    street.drop(4, PUBLIC1)
    return [
        Row(f"connections of {CONNECTIONS} lost when {what}", "connections", [each], 0) for what, each in lost.items()
    ]


@asynccontextmanager
async def _calls(street: IngressWorld) -> AsyncGenerator[Callable[[], asyncio.Future[int]]]:
    """Open connections; the result counts those that are not answered by their own pod any more."""
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(talking(street.lan, street.lan.target, PUBLIC1, PORT))
            for _ in range(CONNECTIONS)
        ]
        before: list[Heard | None] = [await each() for each in made]
        assert None not in before

        async def count() -> int:
            after = [await each() for each in made]
            return sum(one != other for one, other in zip(before, after, strict=True))

        yield lambda: asyncio.ensure_future(count())


async def _routes(say: Say) -> list[Row]:
    """Measure the time until a router has no route to a node that is cut off, and the speaker's memory."""
    say("a gateway is cut off, with BGP's hold time and with BFD")
    found: dict[str, float] = {}
    async with ingress_world(real_world()) as street:
        street.lan.look_away()
        edge = Edge(street)
        await edge.apply(*WAYS)
        for name, bfd in (("BGP hold time", None), ("BFD", (0.3, 3))):
            with routing(edge.router(restart=0, bfd=bfd is not None)) as router:
                for node in NODES.values():
                    await edge.speak(int(node[-1]), restart=0, bfd=bfd)
                await until(lambda router=router: router.next_hops(ROUTED) == set(NODES.values()), "both routes")
                await asyncio.sleep(3.0)  # BFD's session follows that of BGP
                began = perf_counter()
                street.lan.lab.command(street.lan.bridge, "ip link set g3 down")
                await until(lambda router=router: router.next_hops(ROUTED) == {NODES["four"]}, "the end of a route")
                found[name] = perf_counter() - began
                street.lan.lab.command(street.lan.bridge, "ip link set g3 up")
                for node in (3, 4):
                    await edge.speaker(node).ensure(replace(edge.speaker(node)._state, sessions=()))
        with routing(edge.router()) as router:
            thousand = [f"203.0.113.{each}" for each in range(256)]
            await edge.speak(3, addresses=thousand, max_prefixes=1000)
            await until(lambda: len(router.routes("three").splitlines()) > 256, "the routes")
            memory = resident_bytes([edge.process(3)]) / 1e6
    return [
        Row("a gateway is cut off → no route to it, BGP hold time 9 s", "s", [found["BGP hold time"]], 10),
        Row("a gateway is cut off → no route to it, BFD 3 × 300 ms", "s", [found["BFD"]], 1.5),
        Row("speaker with one session and 256 addresses", "MB", [memory], 6),
    ]
