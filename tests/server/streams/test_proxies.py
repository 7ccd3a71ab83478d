"""`kubectl get --raw` through pods/proxy, services/proxy and nodes/proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from tarmac.client.targets.target import dynamic
from tests.server.streams.planet import Planet

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


@pytest.fixture
async def port() -> AsyncGenerator[int]:
    """A server in the pod that returns the request that it got."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[16:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
        told = json.dumps({"head": head, "body": (await reader.readexactly(length)).decode()}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Own: yes\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(told) + told)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def raw(world: Planet, path: str) -> str:
    said = await world.kubectl("get", "--raw", path)
    assert said.code == 0, said.err
    return json.loads(said.out)["head"]


async def test_a_port_of_a_pod(world: Planet, port: int) -> None:
    head = await raw(world, f"{PODS}/web:{port}/proxy/some/path%20x?q=1")
    assert head.startswith("GET /some/path%20x?q=1 HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{port}\r\n" in head
    assert "authorization" not in head.lower()
    assert (await raw(world, f"{PODS}/http:web:{port}/proxy/")).startswith("GET / HTTP/1.1")


async def test_a_body_goes_along(world: Planet, port: int) -> None:
    said = await world.kubectl("create", "--raw", f"{PODS}/web:{port}/proxy/put", "-f", "-", stdin=b'{"some":"json"}')
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert told["head"].startswith("POST /put HTTP/1.1")
    assert told["body"] == '{"some":"json"}'


async def test_a_pod_behind_a_service(world: Planet, port: int) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "default"}}
    ports = [{"name": "http", "port": 80, "targetPort": port}]
    await world.client.resource(dynamic("v1", "services", "Service")).create({**service, "spec": {"ports": ports}})
    target = {"kind": "Pod", "name": "web", "namespace": "default"}
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "shop-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "shop"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": True}, "targetRef": target}],
    }
    slices = world.client.resource(dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"))
    await slices.create(slice_)
    assert (await raw(world, f"{SERVICES}/shop:http/proxy/x")).startswith("GET /x HTTP/1.1")
    assert (await raw(world, f"{SERVICES}/shop:80/proxy/x")).startswith("GET /x HTTP/1.1")
    said = await world.kubectl("get", "--raw", f"{SERVICES}/shop:81/proxy/x")
    assert 'no service port 81 found for service "shop"' in said.err
    said = await world.kubectl("get", "--raw", f"{SERVICES}/shop:other/proxy/x")
    assert 'no endpoints available for service "shop"' in said.err


async def test_the_nodes_own_api(world: Planet) -> None:
    said = await world.kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/healthz")
    assert said.out == b"ok"
    said = await world.kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/pods")
    assert json.loads(said.out)["items"][0]["metadata"]["name"] == "web"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{PODS}/web:1/proxy/", "failed to connect to port 1"),
        (f"{PODS}/ftp:web:1/proxy/", 'invalid pod request "ftp:web:1"'),
        (f"{PODS}/web:x/proxy/", 'invalid port "x"'),
        (f"{PODS}/none/proxy/", 'pods "none" not found'),
        ("/api/v1/nodes/n1:22/proxy/", "port 22 is not the node's own API"),
        ("/api/v1/nodes/none/proxy/", 'nodes "none" not found'),
    ],
)
async def test_refusals(world: Planet, path: str, message: str) -> None:
    said = await world.kubectl("get", "--raw", path)
    assert said.code == 1
    assert message in said.err


async def test_a_slow_reader_costs_no_memory(world: Planet) -> None:
    """The agent does not buffer a hundred megabytes for a client that does not read."""
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            for _ in range(1600):
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    process = await world.start("get", "--raw", f"{PODS}/web:{server.sockets[0].getsockname()[1]}/proxy/")
    await asyncio.sleep(1.5)
    before = sent
    await asyncio.sleep(0.5)
    assert 0 < sent == before < 60_000_000
    process.kill()
    await process.communicate()
    server.close()


@pytest.mark.parametrize("path", ["exec/default/web/main", "/exec/default/web/main", "run/default/web/main"])
async def test_commands_behind_nodes_proxy_need_the_right_to_create(world: Planet, path: str) -> None:
    """WebSockets use GET; a user with the right to read only must not get in by them."""
    look = ("create", "clusterrole", "look", "--verb=get", "--resource=nodes/proxy")
    assert (await world.kubectl(*look)).code == 0
    assert (await world.kubectl("create", "clusterrolebinding", "look", "--clusterrole=look", "--user=eve")).code == 0
    assert (await world.kubectl("--as=eve", "get", "--raw", "/api/v1/nodes/n1/proxy/healthz")).out == b"ok"
    said = await world.kubectl("--as=eve", "get", "--raw", f"/api/v1/nodes/n1/proxy/{path}?command=id&output=1")
    assert 'User "eve" cannot create resource "nodes/proxy"' in said.err
