"""One client per backend. The real server needs `PEERS=1`; without it, its tests skip with that reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tarmac.client.client import Client
from tarmac.client.targets.untyped import NAMESPACES
from tests.client import backends

WHOLE_SERVERS = ("in-process", "tls", pytest.param("real", marks=pytest.mark.peers))
BACKENDS = ("model", *WHOLE_SERVERS)


@pytest.fixture(params=BACKENDS)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Client]:
    async with AsyncExitStack() as stack:
        if request.param == "model":
            yield await stack.enter_async_context(backends.model())
        elif request.param == "in-process":
            yield await stack.enter_async_context(backends.in_process(tmp_path))
        elif request.param == "tls":
            yield await stack.enter_async_context(backends.over_tls(tmp_path))
        else:
            yield await stack.enter_async_context(backends.real(request.getfixturevalue("peer")))


@pytest.fixture
async def namespace(client: Client) -> str:
    """A namespace of the test's own."""
    name = f"test-{client.randomness.suffix(10)}"
    await client.resource(NAMESPACES).create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name
