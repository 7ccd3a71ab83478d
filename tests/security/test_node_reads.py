"""A stolen node certificate: the objects it can read of pods that are not on that node, over TLS.

The server runs in a process of its own. The pods have a secret value in every field of a Pod.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.base.clock import SystemClock
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.transport import ClientRequest, LineSplitter
from tarmac.server.security.certificates.pki import Pki
from tests.server.pods import ALL_ENDPOINTS, CANARY, ENDPOINTS, PODS, STATUS, pod
from tests.support.tarmac_process import TarmacProcess

JSON = {"accept": "application/json", "content-type": "application/json"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
SHAPES = ("application/json", "application/yaml", TABLE, METADATA, "application/vnd.kubernetes.protobuf", "*/*")
LISTED = {"node", "phase", "ready", "workload", "ports", "addresses", "nodeAddresses", "interfaces"}


class Caller:
    """A client with a certificate."""

    def __init__(self, server: TarmacProcess, pki: Pki, user: str, group: str) -> None:
        pair = pki.client(user, [group])
        config = HttpConfig(server.url, pki.ca_file.read_text(), pair.certificate.decode(), pair.key.decode())
        self._transport = HttpTransport(config)

    async def call(self, method: str, url: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        path, _, query = url.partition("?")
        data = b"" if body is None else json.dumps(body).encode()
        names = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        reply = await self._transport.request(ClientRequest(method, path, query, names, data))
        return reply.status, reply.body

    async def done(self, method: str, url: str, body: Any = None, **headers: str) -> Any:
        status, answer = await self.call(method, url, body, **headers)
        assert status in (200, 201), answer
        return json.loads(answer)

    async def change(self, name: str, patch: Any, subresource: str = "") -> Any:
        kind = "application/merge-patch+json"
        return await self.done("PATCH", f"{PODS}/{name}{subresource}", patch, content_type=kind)

    @asynccontextmanager
    async def watch(self, url: str, accept: str = "application/json") -> AsyncGenerator[AsyncIterator[bytes]]:
        path, _, query = url.partition("?")
        async with (
            asyncio.timeout(30),
            self._transport.stream(ClientRequest("GET", path, query, {"accept": accept})) as reply,
        ):
            assert reply.status == 200
            yield _lines(reply.chunks)

    async def close(self) -> None:
        await self._transport.close()


async def _lines(chunks: Any) -> AsyncIterator[bytes]:
    lines = LineSplitter()
    async for chunk in chunks:
        for line in lines.of(chunk):
            yield line


class World:
    """A server process, its administrator and the node `n2`, which has one pod: `own`. The pod `web` is on `n1`."""

    def __init__(self, server: TarmacProcess) -> None:
        pki = Pki(server.data_dir / "pki", SystemClock())
        self.server = server
        self.admin = Caller(server, pki, "root", "system:masters")
        self.node = Caller(server, pki, "system:node:n2", "system:nodes")

    async def prepare(self) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await self.admin.call("POST", accounts, {"metadata": {"name": CANARY}})
        for node in ("n1", "n2"):
            await self.admin.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        for name in ("web", "own", "late"):
            await self.remove(name)
        await self.run("web", "n1")
        await self.run("own", "n2")

    async def run(self, name: str, node: str) -> None:
        given = pod(name, node)
        # the annotation is the controllers' to write, hooks and host ports are not for baseline namespaces
        given["metadata"]["annotations"] = {CANARY: CANARY}
        given["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
        await self.admin.done("POST", PODS, given)
        await self.admin.change(name, {"status": STATUS}, "/status")

    async def remove(self, name: str) -> None:
        if (await self.admin.call("GET", f"{PODS}/{name}"))[0] == 200:
            await self.admin.change(name, {"metadata": {"finalizers": None}})
            await self.admin.done("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    async def close(self) -> None:
        await self.admin.close()
        await self.node.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TarmacProcess]:
    # Without these controllers, nodes need no heartbeats and objects need no owners.
    data = tmp_path_factory.mktemp("sees") / "data"
    with TarmacProcess(data, "--controllers", "serviceaccount") as server:
        yield server


@pytest.fixture
async def world(server: TarmacProcess) -> AsyncIterator[World]:
    world = World(server)
    await world.prepare()
    yield world
    await world.close()


async def test_a_node_reads_no_pod_of_another(world: World) -> None:
    own = "fieldSelector=spec.nodeName%3Dn2"
    other = "fieldSelector=spec.nodeName%3Dn1"
    everything = ["/api/v1/pods", PODS, f"{PODS}/web", f"{PODS}/web/status", f"{PODS}/web/log"]
    asked = [
        *everything,
        *(f"{path}?{query}" for path in everything[:2] for query in ("limit=1", other, "labelSelector=app%3Dweb")),
        *(f"{path}?watch=1&timeoutSeconds=1&{query}" for path in everything[:2] for query in ("", other)),
        "/api/v1/watch/pods",
        "/api/v1/watch/namespaces/default/pods/web",
    ]
    for url in asked:
        for accept in (SHAPES[0], TABLE, METADATA):
            status, answer = await world.node.call("GET", url, accept=accept)
            assert status == 403, (url, answer)
            assert CANARY.encode() not in answer
    listed = await world.node.done("GET", f"/api/v1/pods?{own}")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["own"], "the node's own pods are complete"
    assert (await world.node.done("GET", f"{PODS}/own"))["spec"]["containers"][0]["env"][0]["value"] == CANARY


async def test_a_node_writes_no_endpoint_and_gets_none_alone(world: World) -> None:
    for method, path in (("POST", ENDPOINTS), ("PUT", f"{ENDPOINTS}/web"), ("DELETE", f"{ENDPOINTS}/web")):
        status, _ = await world.node.call(method, path, {"metadata": {"name": "web"}})
        assert status == 403
    assert (await world.node.call("GET", f"{ENDPOINTS}/web"))[0] == 403
    assert (await world.admin.call("DELETE", f"{ENDPOINTS}/web"))[0] == 405


async def test_endpoints_tell_a_node_where_pods_are_and_no_more(world: World) -> None:
    found = await world.node.done("GET", ALL_ENDPOINTS)
    web = next(item for item in found["items"] if item["metadata"]["name"] == "web")
    assert (web["node"], web["addresses"], web["workload"], web["ready"]) == ("n1", ["10.128.0.5"], "shop", True)
    for item in found["items"]:
        assert set(item) <= {"apiVersion", "kind", "metadata", *LISTED}
        assert set(item["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "labels"}
    queries = ("", "limit=1", "labelSelector=app%3Dweb", "fieldSelector=node%3Dn1", "resourceVersion=0")
    for query in queries:
        for accept in SHAPES:
            for encoding in ("identity", "gzip"):
                url = f"{ALL_ENDPOINTS}?includeObject=Object&{query}"
                _, answer = await world.node.call("GET", url, accept=accept, accept_encoding=encoding)
                assert CANARY.encode() not in answer, (query, accept)


@pytest.mark.parametrize("accept", ["application/json", TABLE, METADATA])
async def test_no_event_tells_a_node_more(world: World, accept: str) -> None:
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    received: list[bytes] = []
    async with world.node.watch(f"{ALL_ENDPOINTS}?{query}&includeObject=Object", accept) as events:
        await _until(events, received, b"initial-events-end")
        await world.admin.change("web", {"metadata": {"annotations": {"hidden": CANARY}}})
        await world.admin.change("web", {"metadata": {"labels": {"tier": "shown"}}})
        await _until(events, received, b"tier")
        await world.remove("web")
        await _until(events, received, b"DELETED")
    types = [json.loads(line)["type"] for line in received]
    # a new label, no longer ready since it is about to end, gone: the hidden change is not among them
    assert types == ["ADDED", "ADDED", "BOOKMARK", "MODIFIED", "MODIFIED", "DELETED"]
    assert CANARY.encode() not in b"".join(received)


async def _until(events: AsyncIterator[bytes], received: list[bytes], word: bytes) -> None:
    async for line in events:
        received.append(line)
        if word in line:
            return


async def test_a_watch_goes_on_where_it_was_when_the_server_was_killed(world: World) -> None:
    listed = await world.node.done("GET", ALL_ENDPOINTS)
    version = listed["metadata"]["resourceVersion"]
    await world.admin.change("web", {"metadata": {"annotations": {"hidden": "1"}}})
    await world.admin.change("web", {"metadata": {"labels": {"tier": "first"}}})
    await world.close()
    world.server.kill()
    world.server.start()
    again = World(world.server)
    world.admin, world.node = again.admin, again.node
    await world.admin.change("web", {"metadata": {"annotations": {"hidden": "2"}}})
    await world.run("late", "n1")
    received: list[bytes] = []
    async with world.node.watch(f"{ALL_ENDPOINTS}?watch=1&resourceVersion={version}") as events:
        await _until(events, received, b'10.128.0.5"],"nodeAddresses":["198.18.0.1"]')
        while len(received) < 3:
            await _until(events, received, b"resourceVersion")
    seen = [(event["type"], event["object"]["metadata"]["name"]) for event in map(json.loads, received)]
    assert seen == [("MODIFIED", "web"), ("ADDED", "late"), ("MODIFIED", "late")]
    assert CANARY.encode() not in b"".join(received)
    assert {LABEL_WORKLOAD_NAME, "app", "tier"} == set(json.loads(received[0])["object"]["metadata"]["labels"])
