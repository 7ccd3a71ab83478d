"""A server and one node in this process: the node's API on a process runtime, over a tunnel or by its address."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.http.api import ExternalConnections, NodeApi
from tarmac.agent.http.auth import DenyAll, ReviewAuthorizer
from tarmac.agent.http.serving import NodeListener
from tarmac.agent.http.tunnel import ServerTunnels
from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import STARTING, Address, Chosen, Running, control_plane, local_transport
from tarmac.apps.layout import Layout
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.serverlist import KnownServers
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NODES, PODS
from tarmac.server.security.certificates.pki import Pki
from tests.agent.http.processes import ProcessRuntime
from tests.agent.http.stage import StageFigures, StagePods, dial, visits_in
from tests.support.kubectl import kubectl_path


@dataclass
class Said:
    """Exit code and output of a command."""

    code: int
    out: bytes
    err: str


@dataclass
class Planet:
    """The server, its node and the pods there."""

    running: Running
    client: Client
    runtime: ProcessRuntime
    pods: StagePods
    figures: StageFigures
    kubeconfig: Path
    home: Path
    pki: Pki

    def command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}
        return [kubectl_path(), *arguments], environment

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        command, environment = self.command(*arguments)
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=self.home
        )

    async def kubectl(self, *arguments: str, stdin: bytes | None = None, timeout: float = 20) -> Said:
        """Run to its end, with any exit code."""
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Said(process.returncode or 0, out, err.decode())


def layout_in(folder: Path) -> Layout:
    data = folder / "data"
    data.mkdir(mode=0o700)
    return Layout(data, data / "pki", data / "secrets.key", f"sqlite://{data / 'store.db'}")


async def add_node(client: Client, name: str = "n1", address: str = "", port: int = 0) -> None:
    """A Node object, as its agent would write it."""
    status: JsonObject = {"conditions": [{"type": "Ready", "status": "True"}]}
    if address:
        status["addresses"] = [{"type": "InternalIP", "address": address}]
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    node = await client.resource(NODES).create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await client.resource(NODES).update({**node, "status": status}, subresource="status")


async def add_pod(client: Client, pods: StagePods, name: str = "web", node: str = "n1", **container: object) -> None:
    """Add a Pod that runs on the node to the server and to the node."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "busybox", **container}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
    made = await client.resource(PODS).create(body)
    state = {"name": "main", "ready": True, "restartCount": 0, "image": "busybox", "imageID": "busybox"}
    state |= {"state": {"running": {}}, "containerID": "containerd://main", "started": True}
    ready = [{"type": each, "status": "True"} for each in ("Ready", "ContainersReady", "Initialized")]
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    made["status"] = {**status, "conditions": ready, "containerStatuses": [state]}
    pods.known.append(await client.resource(PODS).update(made, subresource="status"))


@asynccontextmanager
async def planet(
    folder: Path,
    tunnelled: bool = True,
    controllers: str = "serviceaccount,namespace",
    external: ExternalConnections | None = None,
) -> AsyncGenerator[Planet]:
    """Serve until the block ends. `external` is the node's report of connections of external services."""
    layout = layout_in(folder)
    runtime = ProcessRuntime({"main": "running"})
    (folder / "logs").mkdir()
    pods, figures = StagePods(folder / "logs", []), StageFigures()
    clock = SystemClock()
    async with control_plane(layout, Address("127.0.0.1", 0), Chosen(controllers)) as running:
        await runtime.start()
        pki = Pki(layout.pki, clock)
        pair = pki.node("n1")
        config = HttpConfig(
            running.url, ca=pki.ca_file.read_text(), certificate=pair.certificate.decode(), key=pair.key.decode()
        )
        node_client = Client(HttpTransport(config), clock, Randomness())
        callers = DenyAll() if tunnelled else ReviewAuthorizer(node_client, "n1", clock)
        api = NodeApi(
            pods=pods,
            runtime=runtime.as_runtime(),
            connect=dial,
            node_metrics=figures,
            authorizer=callers,
            clock=clock,
            consoles=visits_in(folder / "recordings"),
            external=external,
        )
        client = Client(local_transport(running.server, STARTING), clock, Randomness())
        if tunnelled:
            servers = KnownServers(node_client, lambda: running.url)
            task = asyncio.ensure_future(ServerTunnels(api, "n1", lambda: config, servers, clock, Randomness()).run())
            await add_node(client)
        else:
            task = await _listen(folder, api, pki, client)
        async with asyncio.timeout(10):
            await client.resource(dynamic("v1", "serviceaccounts", "ServiceAccount")).list("default")
            while not await _has_account(client):
                await asyncio.sleep(0.02)
        await add_pod(client, pods)
        if tunnelled:
            await _tunnel_opened(running)
        (folder / "home").mkdir()
        try:
            yield Planet(running, client, runtime, pods, figures, layout.kubeconfig, folder / "home", pki)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await runtime.stop()
            await node_client.close()


async def _listen(folder: Path, api: NodeApi, pki: Pki, client: Client) -> asyncio.Future[None]:
    pair = pki.authority.issue_server("system:node:n1", ["127.0.0.1"], SystemClock().now())
    (folder / "node.crt").write_bytes(pair.certificate)
    (folder / "node.key").write_bytes(pair.key)
    listener = NodeListener(api, "127.0.0.1", 0, pki.ca_file)
    task = asyncio.ensure_future(listener.run(folder / "node.crt", folder / "node.key"))
    while not listener.port:
        await asyncio.sleep(0.01)
    await add_node(client, "n1", "127.0.0.1", listener.port)
    return task


async def _has_account(client: Client) -> bool:
    page = await client.resource(dynamic("v1", "serviceaccounts", "ServiceAccount")).list("default")
    return bool(page.items)


async def _tunnel_opened(running: Running) -> None:
    async with asyncio.timeout(10):
        while not any(not transport.is_closing() for transport in running.listener.upgraded):
            await asyncio.sleep(0.01)
