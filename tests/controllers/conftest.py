"""The servers that controllers must keep in order: ours, and the real one without its own controller manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest

from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.controllers.manager import ControllerManager
from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.jwt import SigningKey
from tests.client import backends
from tests.controllers.signing import signer
from tests.support.roles import install_roles, token

HOUSEKEEPING = "garbage,namespace,serviceaccount,serviceaccounttoken,clusterrole,certificates,volume"


@pytest.fixture(params=("in-process", pytest.param("real", marks=pytest.mark.peers)))
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Client]:
    """Return a client of a server with our controllers; our own server includes them."""
    if request.param == "in-process":
        async with backends.in_process(tmp_path) as client:
            yield client
        return
    peer = request.getfixturevalue("peer")
    async with backends.real(peer) as client, asyncio.TaskGroup() as group:
        await install_roles(client)
        process = Client(HttpTransport(HttpConfig(peer.url, ca=peer.ca, token=await token(client))))
        key = SigningKey((peer.directory / "accounts.key").read_bytes())
        sign_token = partial(secrettokens.sign, key, client.randomness)
        manager = ControllerManager(
            process, HOUSEKEEPING, root_ca=lambda: "-- CA --", sign=signer(), sign_token=sign_token
        )
        task = group.create_task(manager.run())
        yield client
        task.cancel()
        await process.close()
