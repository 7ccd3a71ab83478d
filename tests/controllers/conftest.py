"""The servers that controllers must keep in order: ours, and the real one without its own controller manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest

from tarmac.client.client import Client
from tarmac.controllers.manager import Manager
from tests.client import backends


@pytest.fixture(params=("in-process", pytest.param("real", marks=pytest.mark.peers)))
async def served(request: pytest.FixtureRequest) -> AsyncGenerator[Client]:
    """A client to a server whose house is kept by our controllers."""
    async with AsyncExitStack() as stack:
        opened = (
            backends.in_process() if request.param == "in-process" else backends.real(request.getfixturevalue("peer"))
        )
        client = await stack.enter_async_context(opened)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(Manager(client, root_ca="-- CA --").run())
            yield client
            task.cancel()
