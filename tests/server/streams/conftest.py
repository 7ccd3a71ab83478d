"""Fixtures shared by the suites of streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.server.streams.planet import Planet, planet


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """The loop that servers and agents run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Planet]:
    async with planet(tmp_path) as running:
        yield running
