"""A server in memory with the default admission chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.admission.world import World


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with World() as made:
        yield made
