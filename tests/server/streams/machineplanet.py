"""A server and one node in this process, with a virtual machine in the simulated runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarmac.agent.http.api import NodeApi
from tarmac.agent.http.auth import ReviewAuthorizer
from tarmac.agent.http.serving import NodeListener
from tarmac.agent.http.tunnel import ServerTunnels
from tarmac.api.identities import controller_user
from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import STARTING, Address, Chosen, Running, control_plane, local_transport
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.serverlist import KnownServers
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, PODS
from tarmac.client.websockets import WebSocket, open_websocket
from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.fake.fakemachines import FakeMachine
from tarmac.runtimes.interface import ContainerConfig, Handler, PodIdentity, SandboxConfig
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.users import User
from tarmac.wire.channels import V5, Channel
from tests.agent.http.stage import StageFigures, StagePods, dial, visits_in
from tests.server.streams.planet import add_node, layout_in

INSTANCES = dynamic("compute.datumapis.com/v1alpha", "instances", "Instance")
BASE = "/apis/compute.datumapis.com/v1alpha/namespaces/default/instances"
_MACHINE_RUNTIME = {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "virtualMachine": {
    "volumeAttachments": [{"name": "boot"}]}}  # fmt: skip
_BOOT = {"name": "boot", "disk": {"template": {"spec": {"type": "pd-standard", "populator": {
    "image": {"name": "datumcloud/ubuntu-2204-lts"}}}}}}  # fmt: skip
_SANDBOX_RUNTIME = {"resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{"name": "main", "image": "busybox"}]}}  # fmt: skip


@dataclass
class MachinePods(StagePods):
    """Names containers by the ids that the runtime gave them."""

    ids: dict[str, str] = field(default_factory=dict[str, str])

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        return self.ids.get(pod["metadata"]["name"])


@dataclass
class Session:
    """A console session of a program."""

    socket: WebSocket
    output: bytes = b""
    notices: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ended: dict[str, Any] | None = None

    async def type(self, keys: bytes) -> None:
        await self.socket.send(bytes((Channel.STDIN,)), keys)

    async def until(self, true: Callable[[Session], bool]) -> None:
        """Read until the condition holds."""
        async with asyncio.timeout(10):
            while not true(self):
                message = await self.socket.receive()
                assert message is not None, (self.output, self.notices, self.ended, self.socket.reason)
                self._take(message[0], message[1:])

    async def rest(self) -> None:
        """Read to the end."""
        async with asyncio.timeout(10):
            while message := await self.socket.receive():
                self._take(message[0], message[1:])

    def _take(self, channel: int, data: bytes) -> None:
        if channel == Channel.STDOUT:
            self.output += data
        elif channel == Channel.STDERR:
            self.notices.append(json.loads(data))
        elif channel == Channel.ERROR:
            self.ended = json.loads(data)


@dataclass
class MachinePlanet:
    """A server with an Instance `vm` that is a machine, and `box` that is none."""

    running: Running
    client: Client
    runtime: FakeRuntime
    pods: MachinePods
    pki: Pki
    folder: Path
    told: list[tuple[str, str]]
    node_port: int
    kubeconfig: Path

    @property
    def machine(self) -> FakeMachine:
        return self.runtime.machine_of(self.pods.ids["vm"])

    @property
    def guest(self) -> Any:
        return self.machine.guest

    def config(self, user: str = "admin", *groups: str) -> HttpConfig:
        """Return the client configuration of a user with a certificate."""
        pair = self.pki.authority.issue_client(user, list(groups or ("system:masters",)), SystemClock().now())
        return HttpConfig(
            self.running.url, ca=self.pki.ca_file.read_text(), certificate=pair.certificate.decode(),
            key=pair.key.decode(),
        )  # fmt: skip

    def client_of(self, user: str, *groups: str) -> Client:
        return Client(HttpTransport(self.config(user, *groups)))

    async def console(self, query: str = "stdin=true", config: HttpConfig | None = None, name: str = "vm") -> Session:
        target = f"{BASE}/{name}/console?{query}"
        return Session(await open_websocket(config or self.config(), target, [V5], Randomness()))

    async def grant(self, role: str, user: str) -> None:
        """Grant a role in the namespace `default`."""
        bindings = self.client.resource(dynamic("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"))
        await bindings.create({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": f"{user}-{role}", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })  # fmt: skip

    async def turn_recording(self, how: str) -> None:
        change = {"metadata": {"annotations": {"compute.datumapis.com/console-recording": how}}}
        await self.client.resource(NAMESPACES).patch("default", change)


async def _add_instance(planet: MachinePlanet, name: str, runtime: JsonObject, volumes: list[JsonObject]) -> None:
    maker = User(controller_user("deployment"), groups=("system:masters", "system:authenticated"))
    client = Client(local_transport(planet.running.server, maker))
    networks = [{"network": {"name": "default"}}]
    spec = {"runtime": runtime, "networkInterfaces": networks, "volumes": volumes}
    made = await client.resource(INSTANCES).create({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance", "spec": spec,
        "metadata": {"name": name, "namespace": "default"},
    })  # fmt: skip
    is_machine = "virtualMachine" in runtime
    container = {"name": "machine" if is_machine else "main", "image": "i", "tty": is_machine, "stdin": is_machine}
    pod = await planet.client.resource(PODS).create({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [{
            "apiVersion": made["apiVersion"], "kind": "Instance", "name": name, "uid": made["metadata"]["uid"],
            "controller": True}]},
        "spec": {"nodeName": "n1", "containers": [container], **({"runtimeClassName": "vm"} if is_machine else {})},
    })  # fmt: skip
    planet.pods.known.append(pod)
    planet.runtime.add_image("i")
    config = SandboxConfig(PodIdentity("default", name, pod["metadata"]["uid"]), name, str(planet.folder), "/")
    sandbox = await planet.runtime.run_sandbox(config, "vm" if is_machine else "runc")
    made_id = await planet.runtime.create_container(
        sandbox, ContainerConfig(str(container["name"]), 0, "i", "i"), config
    )
    await planet.runtime.start_container(made_id)
    planet.pods.ids[name] = made_id


@asynccontextmanager
async def machine_planet(folder: Path, idle_seconds: float = 3600.0) -> AsyncGenerator[MachinePlanet]:
    """Serve until the block ends."""
    layout, clock, told = layout_in(folder), SystemClock(), list[tuple[str, str]]()
    runtime = FakeRuntime(handlers=(Handler("runc"), Handler("vm", own_kernel=True)), machine_handler="vm")
    pods = MachinePods(folder, [])
    controllers = Chosen("serviceaccount,namespace,clusterrole,network")
    async with control_plane(layout, Address("127.0.0.1", 0), controllers) as running:
        pki = Pki(layout.pki, clock)
        pair = pki.node("n1")
        config = HttpConfig(
            running.url, ca=pki.ca_file.read_text(), certificate=pair.certificate.decode(), key=pair.key.decode()
        )
        node_client = Client(HttpTransport(config), clock, Randomness())
        api = NodeApi(
            pods=pods, runtime=runtime, connect=dial, node_metrics=StageFigures(), clock=clock,
            authorizer=ReviewAuthorizer(node_client, "n1", clock), consoles=visits_in(folder / "recordings", told),
            idle_seconds=idle_seconds,
        )  # fmt: skip
        client = Client(local_transport(running.server, STARTING), clock, Randomness())
        serving = pki.authority.issue_server("system:node:n1", ["127.0.0.1"], clock.now())
        (folder / "node.crt").write_bytes(serving.certificate)
        (folder / "node.key").write_bytes(serving.key)
        listener = NodeListener(api, "127.0.0.1", 0, pki.ca_file)
        tasks = [asyncio.ensure_future(listener.run(folder / "node.crt", folder / "node.key"))]
        async with asyncio.timeout(10):
            while not listener.port:
                await asyncio.sleep(0.01)
        servers = KnownServers(node_client, lambda: running.url)
        tunnels = ServerTunnels(api, "n1", lambda: config, servers, clock, Randomness())
        tasks.append(asyncio.ensure_future(tunnels.run()))
        await add_node(client)
        async with asyncio.timeout(10):
            while not any(not transport.is_closing() for transport in running.listener.upgraded):
                await asyncio.sleep(0.01)
        made = MachinePlanet(running, client, runtime, pods, pki, folder, told, listener.port, layout.kubeconfig)
        async with asyncio.timeout(10):
            accounts = client.resource(dynamic("v1", "serviceaccounts", "ServiceAccount"))
            while not (await accounts.list("default")).items:
                await asyncio.sleep(0.02)
        await _add_instance(made, "vm", _MACHINE_RUNTIME, [_BOOT])
        await _add_instance(made, "box", _SANDBOX_RUNTIME, [])
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await runtime.close()
            await node_client.close()
