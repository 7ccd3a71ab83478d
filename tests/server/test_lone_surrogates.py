"""Lone surrogates, in names of fields, values and documents of every patch format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cost.measuring import Server, serving
from tests.fuzz.test_random_input import is_failure

SECRETS = "/api/v1/namespaces/default/secrets"
LONE = r'"\ud800"'
FORMATS = {
    "application/strategic-merge-patch+json": f'{{"metadata": {{"name": "a"}}, {LONE}: {{"a": {{"a": 1, "a": 2}}}}}}',
    "application/merge-patch+json": f'{{"stringData": {{{LONE}: {LONE}}}}}',
    "application/json-patch+json": f'[{{"op": "add", "path": "/data", "value": {{{LONE}: "ZA=="}}}}]',
    "application/apply-patch+yaml": f'{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "a"}}, {LONE}: 1}}',
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as running:
        yield running


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_lone_surrogate_in_a_patch_is_the_clients_error(server: Server, kind: str, validation: str) -> None:
    assert (await server.send("POST", SECRETS, {"metadata": {"name": "a"}})).status == 201
    query = f"fieldValidation={validation}&fieldManager=a"
    reply = await server.send("PATCH", f"{SECRETS}/a", FORMATS[kind].encode(), kind, query)
    assert not is_failure(reply.status, reply.body), reply.body
    reply = await server.send("GET", SECRETS)
    assert reply.status == 200


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize("body", [f'{{"metadata": {{"name": "b"}}, {LONE}: 1}}', f'{{"metadata": {{"name": {LONE}}}}}'])
async def test_a_lone_surrogate_in_a_body_is_the_clients_error(server: Server, body: str, validation: str) -> None:
    reply = await server.send("POST", SECRETS, body.encode(), query=f"fieldValidation={validation}")
    assert reply.status < 500, reply.body
