"""Bytes that are no UTF-8 where JSON is expected: an error like other malformed JSON."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarmac.agent.http.bridging import commandclient
from tarmac.client.envelope import envelope_of
from tarmac.client.errors import GarbledReply, api_error
from tarmac.client.requests import decode_json
from tarmac.runtimes.qemu.qmp import MalformedMessage, decode_message
from tests.cost.measuring import Server, serving

NO_TEXT = b'{"a":"\xff"}'
AS_NAME = b'{"auths":{"\xff":{}}}'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as running:
        yield running


@pytest.mark.parametrize("content", [NO_TEXT, AS_NAME, b"\xff", b'"\xff"'])
@pytest.mark.parametrize("kind", ["dockerconfigjson", "dockercfg"])
async def test_a_pull_secret_is_read_as_go_reads_it(server: Server, kind: str, content: bytes) -> None:
    data = {f".{kind}": base64.b64encode(content).decode()}
    body = {"metadata": {"name": "a"}, "type": f"kubernetes.io/{kind}", "data": data}
    reply = await server.send("POST", "/api/v1/namespaces/default/secrets", body)
    assert reply.status == (201 if content in (NO_TEXT, AS_NAME) else 422), reply.body


@pytest.mark.parametrize("content", [NO_TEXT, AS_NAME, b'"\xff"'])
def test_answers_of_servers_nodes_and_monitors_are_malformed(content: bytes) -> None:
    with pytest.raises(GarbledReply):
        decode_json(content)
    with pytest.raises(GarbledReply):
        envelope_of(b'{"kind":"\xff"}')
    with pytest.raises(MalformedMessage):
        decode_message(b'{"event":"\xff"}')
    assert api_error(503, content).http_code == 503
    assert commandclient._size(b'{"Width":"\xff"}') is None  # pyright: ignore[reportPrivateUsage]
