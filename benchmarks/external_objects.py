"""External services from the objects to the first byte: a server, its controllers and agents, and real packets.

They are one process here, and pods are namespaces that exist before their objects report them as running, so the result
is the time that external services add. It runs in a network namespace of its own, where nodes reach each other by
addresses of the loopback: `unshare --net python -m benchmarks.external_objects TIMES` prints seconds as JSON.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.report import Row
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.apps.control_plane import local_transport
from tarmac.client.client import Client
from tarmac.client.targets.untyped import PODS, SERVICES
from tarmac.datapath.fake import FakeUnderlay
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.server.security.users import User
from tests.agent.egress.nodes import (
    CITY,
    CLAIMS,
    CLASSES,
    CONTROLLERS,
    EXTERNAL,
    NETWORK,
    Node,
    Planet,
    _register,
)
from tests.client.backends import our_server
from tests.datapath.conftest import real_world
from tests.datapath.egress_worlds import RANGES, SOURCE1
from tests.datapath.segment import TARGET, Segment
from tests.datapath.worlds import RealWorld, nic
from tools.cache import ROOT

NODES = (1, 2, 3)  # the first has the pods, the other ones are gateways
TIMES = 5
PORT = 8000
VNI = 4097
PATIENCE = 0.1
_FIRST_POD = 5


@dataclass
class Seconds:
    """Seconds of each run."""

    created: list[float] = field(default_factory=list[float])
    added: list[float] = field(default_factory=list[float])
    deleted: list[float] = field(default_factory=list[float])


def object_rows(say: Callable[[str], None], times: int = TIMES) -> list[Row]:
    """Needs root."""
    say(f"creating an ExternalService, adding a pod and deleting it, {times} times")
    command = ["unshare", "--net", sys.executable, "-m", "benchmarks.external_objects", str(times)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = Seconds(**json.loads(done.stdout.splitlines()[-1]))
    return [
        Row("ExternalService created → first byte, pods running", "s", found.created, 2),
        Row("pod added → admitted", "s", found.added, 1),
        Row("ExternalService deleted → stream dead", "s", found.deleted, 1),
    ]


class World:
    """The objects, and the pods that are namespaces."""

    def __init__(self, planet: Planet, real: RealWorld) -> None:
        self.planet, self.real = planet, real
        self._pods = 0

    async def pod(self) -> tuple[str, float]:
        """Create one more pod of the Service, with its link; return its name, and the time of its object's creation."""
        self._pods += 1
        name, address = f"web-{self._pods}", f"10.128.0.{_FIRST_POD + self._pods}"
        link = nic(NETWORK, f"{address}/20", vni=VNI)
        await self.real.pod(1, name, [link])
        began = perf_counter()
        spec: JsonObject = {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "automountServiceAccountToken": False,
        }
        annotations = {ANNOTATION_INTERFACES: encode_interfaces([link])}
        await self.planet.create(PODS, name, spec, labels={"app": "web"}, annotations=annotations)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.planet.admin.resource(PODS).patch(name, {"status": status}, "default", subresource="status")
        return name, began

    async def stream(self, pod: str, external: str) -> socket.socket:
        """Open a connection of a pod to the server, as soon as possible, and wait for its response."""
        while True:
            found = await self.planet.admin.resource(EXTERNAL).get(external, "default")
            dialled = next(iter((found.get("status") or {}).get("addresses") or ()), "")
            if dialled:
                made = self.real.lab.socket(self.real.namespace(pod), socket.AF_INET, socket.SOCK_STREAM)
                with suppress(OSError):
                    async with asyncio.timeout(PATIENCE):
                        await asyncio.get_running_loop().sock_connect(made, (dialled, PORT))
                        await answered(made)
                    return made
                made.close()
            await asyncio.sleep(0.01)


async def answered(stream: socket.socket) -> None:
    """Check that the server sees the right source. Raises OSError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(stream, b"?")
    if (await loop.sock_recv(stream, 100)).decode() != SOURCE1:
        raise OSError("the connection is over")


async def measure(times: int) -> Seconds:
    """Measure from a claim and pods alone, repeatedly."""
    found = Seconds()
    async with _world() as world:
        first, _ = await world.pod()
        await asyncio.sleep(1.0)  # it is an endpoint by then
        for number in range(times):
            name = f"db{number}"
            sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}]
            began = perf_counter()
            spec: JsonObject = {"targetIP": TARGET, "sources": sources, "ports": [{"port": PORT}]}
            await world.planet.create(EXTERNAL, name, spec)
            with await world.stream(first, name) as stream:
                found.created.append(perf_counter() - began)
                added, began = await world.pod()
                (await world.stream(added, name)).close()
                found.added.append(perf_counter() - began)
                began = perf_counter()
                await world.planet.admin.resource(EXTERNAL).delete(name, "default")
                with suppress(OSError):
                    while True:
                        async with asyncio.timeout(PATIENCE):
                            await answered(stream)
                found.deleted.append(perf_counter() - began)
            with suppress(NotFound):
                while True:
                    await world.planet.admin.resource(EXTERNAL).get(name, "default")
                    await asyncio.sleep(0.05)
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
        await segment.serve(PORT)
        running = await stack.enter_async_context(our_server(folder / "server"))
        planet = Planet(Client(local_transport(running.server, CONTROLLERS)), {})
        for number in NODES:
            if number > 1:
                segment.gateway(number)
            address, name = f"198.18.0.{number}", f"n{number}"
            state = NetworkState(NETWORK, VNI, 1460, RANGES)
            assert not await real.node(number).apply(NodeNetworks((address,), (state,)))
            user = User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))
            node: Any = Node(name, address, folder / name, FakeUnderlay(), local_transport(running.server, user))
            node.datapath = real.node(number)
            await _register(planet.admin, node, CITY)
            node.start()
            stack.push_async_callback(node.stop)
        await planet._account()
        offered = {
            "ranges": [{"cidr": "192.168.122.192/27"}],
            "subnet": {"prefixLength": 24},
            "allowedNamespaces": {"names": ["default"]},
        }
        await planet.create(CLASSES, "partner", offered)
        await planet.create(CLAIMS, "c", {"className": "partner", "address": SOURCE1})
        await planet.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
        yield World(planet, real)


if __name__ == "__main__":
    print(json.dumps(vars(asyncio.run(measure(int(sys.argv[1]))))))
