"""A whole server with its controllers, and nodes with real ExternalService code on a fake kernel.

Each node sends requests with its own rights, and datagrams to the other nodes at a loopback address of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from tarmac.agent.config.agentconfig import settle
from tarmac.agent.config.configreader import stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.api.conditions import condition_of
from tarmac.api.egress.names import API_VERSION, LABEL_GATEWAY
from tarmac.api.identities import controller_user
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import local_transport
from tarmac.apps.node.nodeegress import NodeExternal
from tarmac.base.tasks import Tasks
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS, NODES, PODS, SERVICE_ACCOUNTS, SERVICES
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tarmac.datapath.fake import FakeDatapath, FakeUnderlay
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.server.security.users import User
from tests.client.backends import our_server

EXTERNAL = dynamic(API_VERSION, "externalservices", "ExternalService")
CLASSES = dynamic(API_VERSION, "sourceipclasses", "SourceIPClass", namespaced=False)
SOURCE_IPS = dynamic(API_VERSION, "sourceips", "SourceIP", namespaced=False)
CLAIMS = dynamic(API_VERSION, "sourceipclaims", "SourceIPClaim")
CONTROLLERS = User(controller_user("instance"), groups=("system:masters", "system:authenticated"))
NETWORK = "default/default"
SOURCE, TARGET = "192.0.2.5", "203.0.113.9"
CITY = "DFW"


class Cable:
    """A node's connection to the server, which can be cut."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.cut = False

    async def request(self, request: ClientRequest) -> Reply:
        self._check()
        return await self._transport.request(request)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        self._check()
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()

    def _check(self) -> None:
        if self.cut:
            raise Disconnected("the server is away")


class Node:
    """One node's agent, limited to ExternalServices."""

    def __init__(self, name: str, address: str, root: Path, underlay: FakeUnderlay, transport: Transport) -> None:
        self.name, self.address, self.root = name, address, root
        self.datapath = FakeDatapath(underlay)
        self.cable = Cable(transport)
        self._tasks = Tasks()
        self.external: NodeExternal | None = None

    def start(self, encrypt: Literal["require", "off"] = "require", **gates: bool) -> None:
        """Start an agent."""
        self.root.mkdir(parents=True, exist_ok=True)
        flags = Flags(
            node_name=self.name,
            kubeconfig=Path(),
            root_dir=self.root,
            node_labels={},
            feature_gates=gates,
            encrypt_between_cities=encrypt,
        )
        config = settle(stated(flags, KubeletConfiguration()), Reservations())
        client = Client(self.cable)
        informers = Informers(client)
        recorder = Recorder(client, "kubelet", self.name)
        kernel, addresses = self.datapath.external, lambda: [self.address]
        self.external = NodeExternal(config, client, informers, kernel, addresses, recorder)
        self._tasks = Tasks()
        self._tasks.begin(recorder.run(), "events")
        self._tasks.begin(informers.run(), "informers")
        for name, run in self.external.runs().items():
            self._tasks.begin(run(), name)  # type: ignore[arg-type]

    def parts(self) -> list[object]:
        """Return the agent's components and its kernel."""
        own = self.external
        assert own is not None
        return [self.datapath.external, own.leases, own._status_writer, own._reconciler._source]

    async def stop(self, *, killed: bool = False) -> None:
        """Stop the agent. A killed one sends nothing to the other nodes."""
        await self._tasks.close()
        external, self.external = self.external, None
        if external is not None:
            if killed:
                await external.leases.close()  # without messages to the other nodes
            else:
                await external.stop()


class Planet:
    """The server's clients, and the nodes by name."""

    def __init__(self, admin: Client, nodes: Mapping[str, Node]) -> None:
        self.admin, self.nodes = admin, nodes

    async def create(self, target: Any, name: str, spec: JsonObject, **metadata: Any) -> JsonObject:
        own = {"name": name, **({"namespace": "default"} if target.namespaced else {}), **metadata}
        body = {"apiVersion": target.api_version, "kind": target.kind, "metadata": own, "spec": spec}
        return await self.admin.resource(target).create(body)

    async def pod(self, name: str, node: str, address: str) -> None:
        """Create a pod, an endpoint of the Service `web`, and attach it."""
        nic = AttachedInterface(name="eth0", network=NETWORK, vni=4097, mtu=1400, addresses=[f"{address}/20"])
        spec: JsonObject = {
            "nodeName": node,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
            "automountServiceAccountToken": False,
        }
        annotations = {ANNOTATION_INTERFACES: encode_interfaces([nic])}
        await self._account()
        await self.create(PODS, name, spec, labels={"app": "web"}, annotations=annotations)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.admin.resource(PODS).patch(name, {"status": status}, "default", subresource="status")
        await self.nodes[node].datapath.attach(name, "", [nic])

    async def _account(self) -> None:
        """Wait for the ServiceAccount that a controller creates, which pods need."""
        async with asyncio.timeout(10):
            while not (await self.admin.resource(SERVICE_ACCOUNTS).list("default")).items:
                await asyncio.sleep(0.01)

    async def prepare(self) -> None:
        """Create a class, a claim, a Service of port 80 with a pod on n1, and an ExternalService at port 8000."""
        offered = {
            "ranges": [{"cidr": "192.0.2.0/24"}],
            "allowedNamespaces": {"names": ["default"]},
            "inbound": {"policy": "FromTarget"},
        }
        await self.create(CLASSES, "partner", offered)
        await self.create(CLAIMS, "c", {"className": "partner", "address": SOURCE})
        await self.create(SERVICES, "web", {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]})
        await self.pod("web-1", "n1", "10.128.0.5")
        sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}]
        ports = [{"port": 5432, "targetPort": 8000}]
        await self.create(EXTERNAL, "db", {"targetIP": TARGET, "sources": sources, "ports": ports})

    async def listen(self, port: int) -> None:
        """Move the server to another port."""
        patch = {"spec": {"ports": [{"port": port, "targetPort": 8000}]}}
        await self.admin.resource(EXTERNAL).patch("db", patch, "default")

    async def ready(self) -> tuple[str, str, str]:
        """Return status and reason of the ExternalService's condition Ready, and the gateways of its addresses."""
        found = await self.admin.resource(EXTERNAL).get("db", "default")
        said = condition_of(found, "Ready")
        summary = (found.get("status") or {}).get("summary") or {}
        return said.get("status", ""), said.get("reason", ""), summary.get("gateway", "")

    async def until_ready(self, gateway: str = "") -> str:
        """Wait until the ExternalService is ready, and return its gateway."""
        found = ("", "", "")
        try:
            async with asyncio.timeout(40):
                while found[0] != "True" or (gateway and found[2] != gateway):
                    await asyncio.sleep(0.02)
                    found = await self.ready()
        except TimeoutError:
            raise AssertionError(f"it is {found}") from None
        return found[2]

    async def until_reason(self, reason: str) -> None:
        """Wait until the ExternalService is not ready for this reason."""
        async with asyncio.timeout(40):
            while (await self.ready())[1] != reason:
                await asyncio.sleep(0.02)

    def candidates(self, address: str) -> list[str]:
        """Return the nodes that are able to carry an address."""
        return [
            name
            for name, node in self.nodes.items()
            if any(each.address == address and each.outside for each in node.datapath.external.state.sources)
        ]

    def in_line(self, node: str, address: str) -> Collection[str]:
        """Return the candidates for an address that a node's agent knows."""
        external = self.nodes[node].external
        life = external.leases._worker if external is not None else None
        terms = life.participant.configs.get(address) if life is not None else None
        return terms.candidates if terms is not None else ()

    def seen(self, pod: str = "web-1", node: str = "n1") -> str | None:
        """Return the address under which the server sees a pod's call to the ExternalService; None without a call."""
        external = self.nodes[node].datapath.external
        dialled = {way.dialled for each in external.state.forwardings for way in each.departures}
        return external.seen(pod, dialled.pop(), 8000) if dialled else None

    async def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Return reasons and messages of an object's events."""
        every = (await self.admin.resource(EVENTS).list()).items
        own = [
            each for each in every if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == (kind, name)
        ]
        return [(each["reason"], each["message"]) for each in own]

    async def source_ip(self, phase: str) -> JsonObject:
        """Return the SourceIP once it is in a phase."""
        async with asyncio.timeout(20):
            while True:
                found = await self.admin.resource(SOURCE_IPS).get(SOURCE)
                if (found.get("status") or {}).get("phase") == phase:
                    return found
                await asyncio.sleep(0.02)

    def carriers(self) -> list[str]:
        return [name for name, each in self.nodes.items() if SOURCE in each.datapath.external.carried()]


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait for a condition that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def planet(
    directory: Path, names: tuple[str, ...] = ("n1", "n2", "n3"), cities: Mapping[str, str] | None = None
) -> AsyncGenerator[Planet]:
    """Run nodes, by default of one city; n2 and n3 are gateways."""
    underlay = FakeUnderlay()
    async with our_server(directory / "server") as running, AsyncExitStack() as stack:
        nodes: dict[str, Node] = {}
        made = Planet(Client(local_transport(running.server, CONTROLLERS)), nodes)
        for number, name in enumerate(names, 1):
            user = User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))
            address = f"127.{64 + os.getpid() // 256 % 64}.{os.getpid() % 256}.{number}"  # one port for all nodes
            node = Node(name, address, directory / name, underlay, local_transport(running.server, user))
            nodes[name] = node
            await _register(made.admin, node, (cities or {}).get(name, CITY))
            node.datapath.external.links = {"outside0": [f"192.0.2.{200 + number}/24"]}
            await node.datapath.apply(NodeNetworks((address,), (NetworkState(NETWORK, 4097, 1400, ("10.128.0.0/9",)),)))
            node.start()
            stack.push_async_callback(node.stop)
        yield made


async def _register(admin: Client, node: Node, city: str) -> None:
    labels = {LABEL_LOCATION: city.lower(), TOPOLOGY_CITY_CODE: city}
    labels |= {LABEL_GATEWAY: "true"} if node.name != "n1" else {}
    metadata = {"name": node.name, "labels": labels}
    await admin.resource(NODES).create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    status = {
        "addresses": [{"type": "InternalIP", "address": node.address}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    await admin.resource(NODES).patch(node.name, {"status": status}, subresource="status")
