"""Public addresses from the objects to the first byte: a server, its controllers and agents, and real packets.

They are one process here, and pods are namespaces that exist before their objects report them as running, so the result
is the time that public addresses add. It runs in a network namespace of its own, where nodes reach each other by
addresses of the loopback: `unshare --net python -m benchmarks.ingress_objects TIMES` prints seconds as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.report import Row
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import Address, Chosen, control_plane, local_transport
from tarmac.apps.layout import Layout
from tarmac.base.gates import WAY_IN
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NODES as NODE_KIND
from tarmac.client.targets.untyped import PODS, SERVICES
from tarmac.controllers.context import Settings
from tarmac.datapath.fake import FakeUnderlay
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.server.security.users import User
from tests.agent.egress.nodes import CITY, CONTROLLERS, NETWORK, Planet, _register
from tests.agent.ingress.test_ingress_agents import POOLS, IngressNode
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import RANGES
from tests.datapath.segment import Segment
from tests.datapath.worlds import RealWorld, nic
from tools.cache import ROOT

NODES = (1, 2, 3)  # the first has the pods, the other ones are gateways
TIMES = 5
PORT, POD_PORT, VNI = 80, 8000, 4097
_PATIENCE = 0.1
_FIRST = 70


@dataclass
class Seconds:
    """Seconds of each run."""

    created: list[float] = field(default_factory=list[float])
    silent: list[float] = field(default_factory=list[float])
    cut_off: list[float] = field(default_factory=list[float])
    killed: list[float] = field(default_factory=list[float])


def object_rows(say: Callable[[str], None], times: int = TIMES) -> list[Row]:
    """Needs root."""
    say(f"a Service is created, loses its endpoint, its gateway is cut off, its agent is killed, {times} times")
    command = ["unshare", "--net", sys.executable, "-m", "benchmarks.ingress_objects", str(times)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = Seconds(**json.loads(done.stdout.splitlines()[-1]))
    return [
        Row("Service created → first byte from outside, endpoint running", "s", found.created, 2),
        Row("last endpoint not ready → nothing new sent there", "ms", [1e3 * each for each in found.silent], 100),
        Row("a gateway is cut off → the next one answers, address of a segment", "s", found.cut_off, 3),
        Row("an agent is killed → the next gateway answers, address of a segment", "s", found.killed, 3),
    ]


class World:
    """The objects, the nodes, and one pod that is a namespace."""

    def __init__(self, planet: Planet, real: RealWorld, segment: Segment, nodes: dict[int, IngressNode]) -> None:
        self.planet, self.real, self.segment, self.nodes = planet, real, segment, nodes
        self._made = 0

    async def pod(self) -> None:
        """Create the pod of all Services, which answers each connection."""
        link = nic(NETWORK, "10.128.0.5/20", vni=VNI)
        await self.real.pod(1, "web", [link])
        made = self.segment._bound(self.real.namespace("web"), 2, 1, POD_PORT)
        self.segment._servers.append(await asyncio.start_server(_answer, sock=made))
        spec: JsonObject = {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "automountServiceAccountToken": False,
        }
        annotations = {ANNOTATION_INTERFACES: encode_interfaces([link])}
        await self.planet.create(PODS, "web", spec, labels={"app": "web"}, annotations=annotations)
        await self.ready()

    async def ready(self, *, ready: bool = True) -> None:
        """Set the pod's condition Ready."""
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": "Running", "podIP": "10.128.0.5", "podIPs": [{"ip": "10.128.0.5"}], "conditions": conditions}
        await self.planet.admin.resource(PODS).patch("web", {"status": status}, "default", subresource="status")

    async def service(self) -> str:
        """Create one more Service; return its address."""
        self._made += 1
        address = f"192.168.122.{_FIRST + self._made}"
        ports = [{"name": "http", "port": PORT, "targetPort": POD_PORT}]
        spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
        await self.planet.create(SERVICES, f"s{self._made}", spec, annotations={ANNOTATION_ADDRESSES: address})
        return address

    async def answers(self, address: str) -> bool:
        """Return True if a new connection from outside is answered at once."""
        with self.segment.lab.socket(self.segment.target, 2, 1) as client, suppress(OSError):
            async with asyncio.timeout(_PATIENCE):
                await asyncio.get_running_loop().sock_connect(client, (address, PORT))
                return bool(await asyncio.get_running_loop().sock_recv(client, 1))
        return False

    async def until(self, address: str, *, answers: bool) -> float:
        """Wait until connections are answered, or not any more; return the seconds until the first such one began."""
        began = perf_counter()
        while True:
            tried = perf_counter()
            if await self.answers(address) is answers:
                return (perf_counter() if answers else tried) - began

    @contextmanager
    def cut_off(self, number: int) -> Generator[None]:
        """Cut a node off from the server, from the segment and from the other nodes."""
        own, link = f"198.18.0.{number}", f"ip link set g{number}"
        rules = "add chain inet cut off { type filter hook input priority 0; }\n"
        rules += f"add rule inet cut off ip saddr {own} udp dport 4804 drop\n"
        rules += f"add rule inet cut off ip daddr {own} udp dport 4804 drop\n"
        self.segment.lab.command(self.segment.bridge, f"{link} down")
        subprocess.run(["nft", "-f", "-"], input=f"add table inet cut\n{rules}", text=True, check=True)
        self.nodes[number].cable.cut = True
        try:
            yield
        finally:
            self.nodes[number].cable.cut = False
            subprocess.run(["nft", "delete", "table", "inet", "cut"], check=True)
            self.segment.lab.command(self.segment.bridge, f"{link} up")

    def owner(self, address: str) -> int:
        """Return the node that owns an address."""
        return next(number for number in NODES if address in self.real.node(number).ingress.carried())


async def _answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"!")
    await writer.drain()
    writer.close()


async def measure(times: int) -> Seconds:
    """Measure from the objects alone, repeatedly."""
    found = Seconds()
    async with _world() as world:
        await world.pod()
        await asyncio.sleep(1.0)
        for _ in range(times):
            began = perf_counter()
            address = await world.service()
            await world.until(address, answers=True)
            found.created.append(perf_counter() - began)
            await world.ready(ready=False)
            found.silent.append(await world.until(address, answers=False))
            await world.ready()
            await world.until(address, answers=True)
            owner = world.owner(address)
            with world.cut_off(owner):
                found.cut_off.append(await world.until(address, answers=False))
                found.cut_off[-1] += await world.until(address, answers=True)
            owner = world.owner(address)
            began = perf_counter()
            await world.nodes[owner].stop(killed=True)
            await world.until(address, answers=False)
            await world.until(address, answers=True)
            found.killed.append(perf_counter() - began)
            world.nodes[owner].start()
            await asyncio.sleep(5.0)
    return found


@asynccontextmanager
async def _world() -> AsyncGenerator[World]:
    for words in ("link set lo up", *(f"address add 198.18.0.{number}/32 dev lo" for number in NODES)):
        await asyncio.to_thread(subprocess.run, ["ip", *words.split()], check=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarmac-bench-")))
        real = real_world()
        stack.push_async_callback(real.close, remove=False)
        segment = Segment(real)
        stack.callback(segment.close)
        segment.look_away()
        layout = Layout(folder / "server", folder / "server/pki", folder / "server/secrets.key", "memory://")
        chosen = Chosen(settings=Settings(way_in=True, node_grace=3600.0))  # no agent here sends heartbeats
        plane = control_plane(layout, Address("127.0.0.1", 0), controllers=chosen, features={WAY_IN})
        running = await stack.enter_async_context(plane)
        planet, nodes = Planet(Client(local_transport(running.server, CONTROLLERS)), {}), dict[int, IngressNode]()
        for number in NODES:
            if number > 1:
                segment.gateway(number)
            address, name = f"198.18.0.{number}", f"n{number}"
            state = NetworkState(NETWORK, VNI, 1460, RANGES)
            assert not await real.node(number).apply(NodeNetworks((address,), (state,)))
            user = User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))
            made: Any = IngressNode(name, address, folder / name, FakeUnderlay(), local_transport(running.server, user))
            made.datapath, nodes[number] = real.node(number), made
            await _register(planet.admin, made, CITY)
            links = [OutsideInterface("outside0", [f"192.168.122.{number}/24"])] if number > 1 else []
            facts = {ANNOTATION_NODE_FACTS: write_facts(NodeFacts(links, public_key=made.public_key))}
            await planet.admin.resource(NODE_KIND).patch(name, {"metadata": {"annotations": facts}})
            made.start()
            stack.push_async_callback(made.stop)
        await planet._account()
        offered = {
            "ranges": [{"cidr": "192.168.122.64/26"}],
            "subnet": {"prefixLength": 24},
            "allowedNamespaces": {"names": ["default"]},
        }
        await planet.create(POOLS, "public", offered)
        yield World(planet, real, segment, nodes)


if __name__ == "__main__":
    print(json.dumps(vars(asyncio.run(measure(int(sys.argv[1]))))))
