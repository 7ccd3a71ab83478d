"""A server with the feature gate on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tarmac.store.memory import MemoryStore
from tests.qosclasses.planet import serving
from tests.server.conftest import Client


@pytest.fixture
async def store() -> AsyncGenerator[MemoryStore]:
    made = MemoryStore()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def api(store: MemoryStore) -> AsyncGenerator[Client]:
    async with serving(store) as client:
        yield client
