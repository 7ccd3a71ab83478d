"""Fixtures that suites of the node's API share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from tests.agent.http.stage import Stage, stage


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stage(tmp_path) as running:
        yield running


@pytest.fixture
async def web() -> AsyncGenerator[aiohttp.ClientSession]:
    """A client on aiohttp, which implements HTTP and WebSocket independently of ours."""
    async with aiohttp.ClientSession() as session:
        yield session


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """The event loop of agents."""
    return {"uvloop": uvloop.new_event_loop}
