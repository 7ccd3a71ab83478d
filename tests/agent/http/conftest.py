"""What suites of the node's API share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from tests.agent.http.stage import Stage, stage


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stage(tmp_path) as running:
        yield running


@pytest.fixture
async def web() -> AsyncGenerator[aiohttp.ClientSession]:
    """Another implementation of HTTP and WebSockets than ours."""
    async with aiohttp.ClientSession() as session:
        yield session
