"""DNS and metadata with real packets: pods with the same address on two networks are distinguished."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from tarmac.agent.dns.nameserver import NameServer
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.upstream import Upstream
from tarmac.agent.dns.view import DnsView, InstanceRecord, NetworkAddress
from tarmac.agent.metadata.metadatatokens import MetadataTokens
from tarmac.agent.metadata.server import MetadataServer
from tarmac.agent.metadata.service import MetadataService
from tarmac.agent.routerservices import RouterServices
from tarmac.api.networking.names import METADATA_ADDRESS, RESOLVERS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tests.agent.dns.asking import Said, ask, read
from tests.datapath.worlds import RealWorld, nic

pytestmark = [pytest.mark.root]

RED, BLUE = "default/red", "default/blue"
SAME = ("10.128.0.2/24", "fd20::2/64")


class Town:
    """A node with two networks of the same range: a pod on each, and one pod on both."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.pods = {
            name: {"metadata": {"name": name, "namespace": "default", "uid": name}} for name in ("r", "b", "rb")
        }

    def pod_at(self, network: str, link: int) -> JsonObject | None:
        return self.pods.get(self.world.node(1).sandbox_of(network, link) or "")

    def networks_of(self, network: str, link: int) -> Collection[str]:
        both = self.world.node(1).sandbox_of(network, link) == "rb"
        return (RED, BLUE) if both else (network,)

    async def name(self, pod: str, name: str, server: str = RESOLVERS[0], type: str = "A", tcp: bool = False) -> Said:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
        packet = ask(name, type)
        with self.world.lab.socket(self.world.namespace(pod), family, kind) as asking:
            async with asyncio.timeout(5):
                await loop.sock_connect(asking, (server, 53))
                await loop.sock_sendall(asking, struct.pack("!H", len(packet)) + packet if tcp else packet)
                return read((await loop.sock_recv(asking, 4096))[2 if tcp else 0 :])

    async def fetch(self, pod: str, request: str) -> tuple[int, str]:
        made = self.world.lab.socket(self.world.namespace(pod), socket.AF_INET, socket.SOCK_STREAM)
        async with asyncio.timeout(5):
            await asyncio.get_running_loop().sock_connect(made, (METADATA_ADDRESS, 80))
            reader, writer = await asyncio.open_connection(sock=made)
            writer.write(f"{request}\nHost: x\nContent-Length: 0\nConnection: close\n\n".replace("\n", "\r\n").encode())
            answer = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


@asynccontextmanager
async def serving(town: Town) -> AsyncGenerator[None]:
    """Serve DNS and metadata on both networks."""
    clock, randomness, view = SystemClock(), Randomness(), DnsView()
    view.put_member(
        ("default", "red"),
        "r",
        InstanceRecord((NetworkAddress(RED, "10.128.0.2"), NetworkAddress(RED, "fd20::2")), True),
    )
    view.put_member(("default", "blue"), "b", InstanceRecord((NetworkAddress(BLUE, "10.128.0.2"),), True))

    async def identify(_pod: JsonObject, audience: str, _seconds: int) -> tuple[str, float]:
        return audience, 0.0

    told = MetadataService(MetadataTokens(clock, randomness), identify, "DFW", lambda _: [])
    metadata = MetadataServer(told, town.pod_at)
    names = NameServer(Resolver(view), Upstream((), clock, randomness), town.networks_of)
    attending = RouterServices(town.world.node(1), clock, (*names.services(), *metadata.services()))
    attending.set_networks((RED, BLUE))
    await metadata.start()
    async with background(attending.run(), "services of networks"):
        await asyncio.sleep(0.3)  # a thread opens the sockets one after the other
        yield
    await metadata.stop()


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root: run this as root, or leave it out with -m 'not root'")
    world = RealWorld()
    try:
        networks = tuple(NetworkState(name, vni, 1460) for name, vni in ((RED, 4097), (BLUE, 4098)))
        await world.node(1).apply(NodeNetworks(("198.18.0.1",), networks))
        await world.pod(1, "r", [nic(RED, *SAME)])
        await world.pod(1, "b", [nic(BLUE, *SAME, vni=4098)])
        second = nic(BLUE, "10.129.0.3/24", name="eth1", vni=4098, leads=())
        await world.pod(1, "rb", [nic(RED, "10.128.0.3/24", "fd20::3/64"), second])
        async with serving(made := Town(world)):
            yield made
    finally:
        await world.close()


async def test_each_pod_is_answered_for_its_own_networks(town: Town) -> None:
    for server in RESOLVERS:
        for tcp in (False, True):
            seen = {
                pod: [
                    (await town.name(pod, f"{one}.default.inst.cluster.local", server, tcp=tcp)).code
                    for one in ("red", "blue")
                ]
                for pod in ("r", "b", "rb")
            }
            assert seen == {"r": [0, 3], "b": [3, 0], "rb": [0, 0]}, (server, tcp)


async def test_each_pod_is_told_about_itself(town: Town) -> None:
    tokens: dict[str, str] = {}
    for pod in town.pods:
        status, tokens[pod] = await town.fetch(pod, "PUT /v1/token HTTP/1.1\nX-Tarmac-Metadata-Token-TTL-Seconds: 60")
        assert status == 200
    for pod, token in tokens.items():
        get = f"GET /v1/instance/name HTTP/1.1\nX-Tarmac-Metadata-Token: {token}"
        assert await town.fetch(pod, get) == (200, pod)
    stolen = f"GET /v1/instance/name HTTP/1.1\nX-Tarmac-Metadata-Token: {tokens['r']}"
    assert (await town.fetch("b", stolen))[0] == 401
