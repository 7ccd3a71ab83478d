"""Watches and followed logs by WebSocket, tokens among the subprotocols, and pages of other origins."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import websocket

from tarmac.base.clock import SystemClock, rfc3339_micro
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.server.nodes import proxying
from tests.server.streams.planet import Planet

PREFIX = "base64url.bearer.authorization.k8s.io."
WATCH = "/api/v1/namespaces/default/configmaps?watch=1"
LOG = "/api/v1/namespaces/default/pods/web/log?follow=true"


def encoded(token: str) -> str:
    return PREFIX + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


@pytest.fixture
async def token(world: Planet) -> str:
    """The token of an account with all rights."""
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "page"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }  # fmt: skip
    await world.client.call("POST", f"/apis/{rbac}/v1/clusterrolebindings", body=json.dumps(binding).encode())
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    return json.loads((await world.client.call("POST", path, body=json.dumps(body).encode())).body)["status"]["token"]


@asynccontextmanager
async def opened(
    world: Planet, path: str, protocols: Sequence[str] = (), **headers: str
) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    context = ssl.create_default_context(cafile=str(world.pki.ca_file))
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{world.running.url}{path}", protocols=protocols, ssl=context, headers=headers) as socket,
    ):
        yield socket


async def refused(world: Planet, path: str, protocols: Sequence[str] = (), **headers: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as told:
        async with opened(world, path, protocols, **headers):
            pass
    return told.value.status


def write(world: Planet, text: str) -> None:
    with (world.pods.logs / "1.log").open("a") as log:
        log.write(f"{rfc3339_micro(SystemClock().now())} stdout F {text}\n")


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def test_each_event_of_a_watch_is_a_text_message(world: Planet, token: str) -> None:
    made = await world.client.resource(CONFIG_MAPS).create(config_map("one"))
    since = made["metadata"]["resourceVersion"]
    path = f"{WATCH}&resourceVersion={since}&timeoutSeconds=2"
    async with opened(world, path, ["page.example", "other", encoded(token)]) as socket:
        assert socket.protocol == "page.example"
        for name in ("two", "three"):
            await world.client.resource(CONFIG_MAPS).create(config_map(name))
        found = [await socket.receive_json(timeout=5) for _ in range(2)]
        assert [(each["type"], each["object"]["metadata"]["name"]) for each in found] == [
            ("ADDED", "two"),
            ("ADDED", "three"),
        ]
        last = await socket.receive(timeout=5)
        assert (last.type, last.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_rows_of_a_table_are_asked_for_in_the_query_where_no_header_can_be_set(world: Planet, token: str) -> None:
    path = f"{WATCH}&as=Table&includeObject=Metadata&fieldSelector=metadata.name=one"
    async with opened(world, path, ["page.example", encoded(token)]) as socket:
        await world.client.resource(CONFIG_MAPS).create(config_map("one"))
        found = await socket.receive_json(timeout=5)
    assert found["object"]["kind"] == "Table"
    assert found["object"]["rows"][0]["object"]["metadata"]["name"] == "one"


async def test_a_large_initial_state_comes_message_by_message(world: Planet, token: str) -> None:
    for number in range(30):
        await world.client.resource(CONFIG_MAPS).create({**config_map(f"m{number:02}"), "data": {"x": "y" * 20_000}})
    async with opened(world, f"{WATCH}&labelSelector=", ["page", encoded(token)]) as socket:
        names = [(await socket.receive_json(timeout=5))["object"]["metadata"]["name"] for _ in range(31)]
        assert names == ["kube-root-ca.crt", *(f"m{number:02}" for number in range(30))]
        await socket.ping()
        await socket.close()


async def test_logs_are_binary_or_base64(world: Planet, token: str) -> None:
    write(world, "first")
    headers = {"Authorization": f"Bearer {token}"}
    for protocols, chosen in (((), None), (("binary.k8s.io",), "binary.k8s.io")):
        async with opened(world, LOG, protocols, **headers) as socket:
            assert socket.protocol == chosen
            assert await socket.receive_bytes(timeout=5) == b""  # it is open
            assert await socket.receive_bytes(timeout=5) == b"first\n"
    async with opened(world, LOG, ["base64.binary.k8s.io", encoded(token)]) as socket:
        assert await socket.receive_str(timeout=5) == ""
        assert base64.b64decode(await socket.receive_str(timeout=5)) == b"first\n"
        write(world, "second")
        assert base64.b64decode(await socket.receive_str(timeout=5)) == b"second\n"
        world.runtime.states["main"] = "exited"
        last = await socket.receive(timeout=5)
        assert (last.type, last.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_rejected_websocket_requests_get_a_status_before_the_upgrade(world: Planet, token: str) -> None:
    good = encoded(token)
    write(world, "line")
    assert await refused(world, "/api/v1/namespaces/default/pods/nobody/log", ["binary.k8s.io", good]) == 404
    assert await refused(world, LOG, ["v5.channel.k8s.io", good]) == 403
    assert await refused(world, f"{WATCH}&labelSelector=%21%21", ["page", good]) == 400


async def test_a_token_that_is_not_as_it_should_be_is_refused(world: Planet, token: str) -> None:
    good = encoded(token)
    for protocols in (
        [good],
        [good, good, "page"],
        [PREFIX + "***", "page"],
        [encoded("no"), "page"],
    ):
        assert await refused(world, WATCH, protocols) == 401, protocols
    for protocols in (["page"], ["page", PREFIX]):
        assert await refused(world, WATCH, protocols) == 403  # anonymous users may not watch
    context = ssl.create_default_context(cafile=str(world.pki.ca_file))
    async with aiohttp.ClientSession() as session:
        url = f"{world.running.url}/api/v1/namespaces/default/configmaps"
        async with session.get(url, ssl=context, headers={"Sec-WebSocket-Protocol": f"page, {good}"}) as answer:
            assert answer.status == 403  # without an upgrade the protocols are ignored, so the request is anonymous


async def test_a_page_of_another_origin_gets_no_connection(world: Planet, token: str) -> None:
    protocols, host = ["page", encoded(token)], world.running.url.removeprefix("https://")
    for origin in ("https://evil.example", f"https://evil.{host}", "null", "https://127.0.0.1:1", ""):
        for path in (WATCH, "/api/v1/namespaces/default/pods/web/exec?command=id&stdout=1"):
            assert await refused(world, path, protocols, Origin=origin) == 403, origin
    async with opened(world, WATCH, protocols, Origin=f"https://{host}") as socket:
        assert (await socket.receive_json(timeout=5))["type"] == "ADDED"


async def test_the_token_reaches_neither_nodes_nor_logs(
    world: Planet, token: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []
    request_head = proxying.request_head

    def listening(method: str, target: str, host: str, headers: list[tuple[str, str]]) -> bytes:
        head = request_head(method, target, host, headers)
        heard.append(head.decode())
        return head

    monkeypatch.setattr(proxying, "request_head", listening)
    path = "/api/v1/namespaces/default/pods/web/exec?command=echo&command=hi&stdout=1"
    async with opened(world, path, ["v4.channel.k8s.io", encoded(token)]) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        assert await socket.receive_bytes(timeout=5) == b"\x01hi\n"
    assert await refused(world, WATCH, [encoded(token), "page", encoded(token)]) == 401
    assert len(heard) == 1
    assert "v4.channel.k8s.io" in heard[0]
    shown = heard[0] + "".join(capfd.readouterr())
    audit = "".join(each.read_text(errors="replace") for each in world.home.parent.rglob("audit*") if each.is_file())
    for secret in (token, encoded(token), encoded(token).removeprefix(PREFIX)):
        assert secret not in shown + audit


async def test_a_client_that_does_not_read_is_cut_off(world: Planet, token: str) -> None:
    for number in range(8):
        await world.client.resource(CONFIG_MAPS).create({**config_map(f"m{number}"), "data": {"x": "y" * 900_000}})
    context = ssl.create_default_context(cafile=str(world.pki.ca_file))
    host, _, port = world.running.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, limit=1024)
    writer.write(
        f"GET {WATCH} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Protocol: page, {encoded(token)}\r\n\r\n".encode()
    )
    assert b"101" in await reader.readline()
    upgraded = world.running.listener.upgraded

    def still_open() -> int:
        return sum(not each.is_closing() for each in upgraded)

    before = still_open()
    async with asyncio.timeout(20):
        for number in range(400):
            await world.client.resource(CONFIG_MAPS).create({**config_map(f"n{number}"), "data": {"x": "y" * 900_000}})
            if still_open() < before:
                break
    assert still_open() == before - 1
    writer.transport.abort()


async def test_stock_clients_watch_and_follow(world: Planet, token: str) -> None:
    write(world, "line")
    host = world.running.url.replace("https://", "wss://")

    def run() -> tuple[str, str, bytes]:
        options = {"ca_certs": str(world.pki.ca_file)}
        watching = websocket.create_connection(
            host + WATCH, sslopt=options, subprotocols=["page", encoded(token)], timeout=10
        )
        event = json.loads(watching.recv())
        chosen = str(watching.subprotocol)
        watching.close()
        following = websocket.create_connection(
            host + LOG, sslopt=options, header=[f"Authorization: Bearer {token}"], timeout=10
        )
        assert following.recv() in (b"", "")
        text = following.recv()
        following.close()
        return event["type"], chosen, text if isinstance(text, bytes) else text.encode()

    assert await asyncio.to_thread(run) == ("ADDED", "page", b"line\n")


async def test_an_answers_own_cache_control_replaces_the_listeners(world: Planet, token: str) -> None:
    context = ssl.create_default_context(cafile=str(world.pki.ca_file))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for path, wanted in (("/apis", ["public"]), ("/api/v1/namespaces", ["no-cache, private"])):
            accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            async with session.get(f"{world.running.url}{path}", ssl=context, headers={"Accept": accept}) as answer:
                found = answer.headers.getall("Cache-Control")
            assert (answer.status, found) == (200 if path == "/apis" else answer.status, wanted)
