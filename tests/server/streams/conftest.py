"""What suites of streams share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.server.streams.planet import Planet, planet


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[Planet]:
    async with planet(tmp_path) as running:
        yield running
