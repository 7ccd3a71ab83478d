"""The servers that controllers must keep in order: ours, and the real one without its own controller manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.client.client import Client
from tarmac.controllers.manager import Manager
from tests.client import backends
from tests.controllers.signing import signer

HOUSEKEEPING = "garbage,namespace,serviceaccount,certificates,volume"


@pytest.fixture(params=("in-process", pytest.param("real", marks=pytest.mark.peers)))
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Client]:
    """A client to a server whose house is kept by our controllers; our own server brings them along."""
    if request.param == "in-process":
        async with backends.in_process(tmp_path) as client:
            yield client
        return
    async with backends.real(request.getfixturevalue("peer")) as client, asyncio.TaskGroup() as group:
        task = group.create_task(Manager(client, HOUSEKEEPING, root_ca="-- CA --", sign=signer()).run())
        yield client
        task.cancel()
