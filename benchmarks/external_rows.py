"""External services, measured with packets in network namespaces: the cost of their path, and of changing it.

Every figure has a limit. Faults of real nodes, such as the gap when a gateway is lost, belong to the suite of faults
and are named as not measured here. Machines are shared, so throughput and round trips are ratios and differences to a
plain link of the same minute, in turns.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from time import perf_counter, thread_time

from benchmarks.external_agent import agent_rows
from benchmarks.external_claims import claim_rows
from benchmarks.external_objects import object_rows
from benchmarks.report import Row
from benchmarks.wireends import measured, serving, took
from tarmac.api.networking.names import DIALLED, TRANSITS
from tarmac.datapath.egress import Departure, EgressState, EncryptedPeer, Exit, Forwarding, OutsideLink, SourceAddress
from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.decide.egress.compiling import compile_service
from tarmac.decide.egress.sources import resolve
from tarmac.runtimes.parts import PartMissing, find_program
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import DIAL, KEP, ONE, POD, SOURCE1, SOURCE2, ExternalWorld, external_world
from tests.datapath.segment import INTERFACE, SEGMENTS, TARGET, connected
from tests.datapath.test_egress_packets import refusal
from tests.decide.egress.making import service
from tests.decide.egress.worlds import Plain, web

Say = Callable[[str], None]
PORT = 9000
PAIRS = 10
PINGS = 2000
RENEWED_EVERY = 0.3  # seconds
_DIRECT = ("10.99.0.1", "10.99.0.2")
SERVICE = replace(KEP, ports=(("TCP", 8000, 8000), ("TCP", PORT, PORT)))
NOT_HERE = (
    "gaps of lost and moved owners, connections that survive, owners at once",
    "packets with a wrong source",
    "an agent's memory and idle CPU without external services",
)


def external_rows(directory: Path, say: Say) -> list[Row]:
    """Needs root."""
    for each in NOT_HERE:
        say(f"NOT MEASURED here, but by the suites of faults, packets and nodes: {each}")
    return [
        *_compiling(),
        *asyncio.run(_with_packets(say)),
        *object_rows(say),
        *agent_rows(say),
        *claim_rows(directory, say),
    ]


def _compiling() -> Iterator[Row]:
    names = [f"p{number}" for number in range(30)]
    world = Plain(services={"team/web": web(*names)})
    for number, name in enumerate(names, 2):
        own = {"team/default": [f"10.128.0.{number}"]}
        world.pods[f"team/{name}"] = replace(world.pods["team/a"], uid=f"uid-{name}", addresses=own)
    wanted, found = service(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}]), list[float]()
    for _ in range(50):
        began = thread_time()
        compile_service(resolve(wanted, world), "169.254.192.9", {}, set())
        found.append((thread_time() - began) * 1e3)
    yield Row("compiling one ExternalService of 30 pods, 2 ports", "CPU-ms", found)


async def _with_packets(say: Say) -> list[Row]:
    async with external_world(real_world()) as lan:
        lan.frames().look_away()  # it would capture millions of frames
        await lan.apply(SERVICE)
        lan.carry(3, SOURCE1, SOURCE2, seconds=600)
        rows = [*await _way(lan, say, "", PAIRS, 0.5, 60.0), *await _changes(lan, say), *await _encrypted(lan, say)]
        await lan.apply(replace(SERVICE, sources=()))
        return [*rows, *await _many(lan, say)]


async def _way(
    lan: ExternalWorld, say: Say, title: str, pairs: int, least: float | None, most: float | None
) -> list[Row]:
    """Measure throughput and round trips, in turns with a plain link."""
    say(f"sending by way of a gateway{title}, and directly, {pairs} times each")
    lab, segment = lan.frames().lab, lan.frames()
    direct = lab.folder / "direct"
    if not direct.exists():
        lab.namespace("direct")
        lab.command(direct, f"ip link add d0 type veth peer name d1 netns {segment.target}")
        for namespace, name, address in ((direct, "d0", _DIRECT[0]), (segment.target, "d1", _DIRECT[1])):
            lab.command(namespace, f"ip address add {address}/24 dev {name}")
            lab.command(namespace, f"ip link set {name} up")
    pod, ratios, added, rates = lan.namespace("a"), list[float](), list[float](), list[float]()
    with serving(segment.target, PORT):
        for _ in range(pairs):
            ours = await measured(pod, "stream", DIAL, PORT, 0.5)
            theirs = await measured(direct, "stream", _DIRECT[1], PORT, 0.5)
            ratios.append(ours / theirs)
            rates.append(ours / 1e9)
            ours = await measured(pod, "ping", DIAL, PORT, PINGS)
            added.append(ours - await measured(direct, "ping", _DIRECT[1], PORT, PINGS))
    return [
        Row(f"throughput{title} ÷ direct veth", "ratio", ratios, least, at_least=True),
        Row(f"throughput{title}", "Gbit/s", rates),
        Row(f"added round trip{title}, p50", "µs", added, most),
    ]


async def _changes(lan: ExternalWorld, say: Say) -> list[Row]:
    say("refusing, changing, revoking, mending")
    node = lan.world.node(1).external
    refused: dict[tuple[str, int], list[float]] = {("d", PORT): [], ("a", 8999): []}
    for (sandbox, port), times in refused.items():
        for _ in range(5):
            why, after = await refusal(lan, sandbox, DIAL, socket.SOCK_STREAM, port)
            assert why == errno.ECONNREFUSED
            times.append(after * 1e3)
    one, mended, revoked = list[float](), list[float](), list[float]()
    state = SERVICE.state(1)
    for number in range(10):
        (known, *others) = state.forwardings
        way = replace(known.departures[0], port=10_000 + number, target_port=10_000 + number)
        state = replace(state, forwardings=(replace(known, departures=(*known.departures, way)), *others))
        one.append(await took(node.apply(state)) * 1e3)
    for _ in range(5):
        lan.frames().lab.command(_router(lan), "nft delete table inet tarmac-external")
        mended.append(1.0 + await took(node.mend()))  # it is checked each second
    for _ in range(3):
        await lan.apply(SERVICE)
        async with connected(lan.frames(), lan.namespace("a"), DIAL, 8000) as ask:
            assert await ask() == SOURCE1
            began = perf_counter()
            await lan.apply(replace(SERVICE, sources=SERVICE.sources[1:]))
            answers = True
            while answers:
                answers = await ask(0.05) is not None
            revoked.append(perf_counter() - began)
    await lan.apply(SERVICE)
    return [
        Row("refusal of a non-source", "ms", refused["d", PORT], 10),
        Row("refusal of a port that is not offered", "ms", refused["a", 8999], 10),
        Row("one more way applied on a node", "ms", one, 20),
        Row("revoked → stream dead", "s", revoked, 1),
        Row("table deleted by hand → repaired", "s", mended, 2),
    ]


def _router(lan: ExternalWorld) -> Path:
    lab = lan.frames().lab
    folder = lab.folder / "run-1" / "netns"
    return next(each for each in sorted(folder.iterdir()) if "egress" in lab.command(each, "ip -o link"))


async def _encrypted(lan: ExternalWorld, say: Say) -> list[Row]:
    try:
        programs = WireGuardPrograms(find_program("wg"), find_program("wireguard-go"))
    except PartMissing as missing:
        say(f"NOT MEASURED: between cities: {missing}")
        return []
    private = {number: bytes((number,)) * 32 for number in (1, 3)}
    peers: dict[int, tuple[EncryptedPeer, ...]] = {}
    for number, other in ((1, 3), (3, 1)):
        external = lan.world.node(number).external
        external.encryption.wireguard.programs = lambda: programs  # type: ignore[union-attr]
        external.identify(private[number])
        peers[number] = (EncryptedPeer(f"198.18.0.{other}", _public(programs, private[other])),)
    await lan.apply(replace(SERVICE, peers=peers), 3, 1)
    means = await lan.world.node(1).external.means()
    try:
        return await _way(lan, say, f" between cities ({means})", 3, None, None)
    finally:
        await lan.apply(SERVICE, 3, 1)


def _public(programs: WireGuardPrograms, private: bytes) -> str:
    text = base64.b64encode(private).decode()
    done = subprocess.run([str(programs.wg), "pubkey"], input=text, capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def _many(lan: ExternalWorld, say: Say) -> list[Row]:
    """100 ExternalServices of 30 pods, 500 addresses: the time of a change, the cost of leases, effects on packets."""
    say("100 ExternalServices of 30 pods, 500 addresses")
    pod, gateway = lan.world.node(1).external, lan.world.node(3).external
    one = _state(1, 1)
    await gateway.apply(one[1])
    await pod.apply(one[0])
    gateway.carry({_source(0): 600.0})
    pod.follow({_source(0): "198.18.0.3"})
    with serving(lan.frames().target, PORT):
        alone = await measured(lan.namespace("a"), "ping", _dialled(0), PORT, PINGS)
    many = _state(100, 30)
    whole = [await took(gateway.apply(many[1]))]
    await pod.apply(many[0])
    addresses = [_source(number) for number in range(500)]
    used: list[float] = []
    for _ in range(30):
        began = thread_time()
        gateway.carry(dict.fromkeys(addresses[:100], 600.0))
        used.append((thread_time() - began) / RENEWED_EVERY * 100)
    gateway.carry(dict.fromkeys(addresses, 600.0))
    pod.follow(dict.fromkeys(addresses, "198.18.0.3"))
    with serving(lan.frames().target, PORT):
        among = await measured(lan.namespace("a"), "ping", _dialled(0), PORT, PINGS)
    return [
        Row("10,000 ways of 500 addresses on a gateway, all at once", "s", whole, 1),
        Row("round trip among 100 services of 30 pods ÷ that with one", "ratio", [among / alone], 1.1),
        Row("gateway of 100 addresses, idle: renewing", "% of a core", used, 1),
    ]


def _source(number: int) -> str:
    return SOURCE1 if number == 0 else str(ip_network("192.168.120.0/21")[1 + number])


def _dialled(number: int) -> str:
    return str(ip_network(DIALLED[0])[1 + number])


def _state(services: int, pods: int) -> tuple[EgressState, EgressState]:
    """Return the state of a node of pods with so many services, and that of a gateway."""
    forwardings: list[Forwarding] = []
    sources: list[SourceAddress] = []
    for number in range(services):
        transit = str(ip_network(TRANSITS[0])[10 + number])
        departures = tuple(
            Departure(ONE, pod, _dialled(number), "TCP", port, TARGET, port, transit, _source(number))
            for pod in (POD, *(f"10.128.{each}.{number + 2}" for each in range(1, pods)))
            for port in (PORT, PORT + 1)
        )
        forwardings.append(Forwarding(f"ns1/s{number}", departures))
        exits = tuple(Exit(transit, "198.18.0.1", TARGET, "TCP", PORT + port) for port in range(20))
        for extra in range(5 if services > 1 else 1):
            mine = exits if not extra else tuple(replace(each, port=each.port + 100 * extra) for each in exits)
            sources.append(
                SourceAddress(_source(number + extra * services), 1 + number + extra * services, ("198.18.0.3",),
                              OutsideLink(INTERFACE, SEGMENTS[4]), mine)
            )  # fmt: skip
    bare = [replace(each, outside=None, exits=()) for each in sources]
    return (
        EgressState("198.18.0.1", tuple(forwardings), tuple(bare)),
        EgressState("198.18.0.3", (), tuple(sources)),
    )
