"""An error that depends on unfinished writes waits until they are visible, and changes when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tarmac.base.clock import ManualClock
from tarmac.store.local import Write
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client

MAPS = "/api/v1/namespaces/default/configmaps"


class SlowStore(MemoryStore):
    """A store whose batches become durable, or fail, on request."""

    slow = False

    def _commit(self, batch: list[Write]) -> None:
        if self.slow:
            self.under_way = batch
        else:
            super()._commit(batch)

    def end(self, why: str = "") -> None:
        """End the batch in progress."""
        self.slow = False
        if why:
            self._failed(self.under_way, why)
            self._next_batch()
        else:
            super()._commit(self.under_way)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[SlowStore]:
    store = SlowStore(clock=clock)
    await store.start()
    yield store
    await store.close()


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_refusal_comes_when_its_cause_can_be_read(api: Client, store: SlowStore) -> None:
    store.slow = True
    first, second = (asyncio.create_task(api.post(MAPS, {"metadata": {"name": "one"}})) for _ in range(2))
    await _turns()
    assert not second.done(), "answered before a reader could see the write"
    assert (await api.get(f"{MAPS}/one")).status == 404
    store.end()
    assert [(await first).status, (await second).status] == [201, 409]


@pytest.mark.parametrize("verb", ["put", "patch", "delete", "unchanged"])
async def test_refusals_based_on_a_failed_write_become_503(api: Client, store: SlowStore, verb: str) -> None:
    """The right answer is unknown then: 503, as the write itself gets, and no request waits for ever."""
    made = await api.configmap("one", key="a")
    stale = {"metadata": made["metadata"], "data": {"key": "c"}}
    asked = {
        "put": partial(api.put, f"{MAPS}/one", stale),
        "patch": partial(api.patch, f"{MAPS}/one", stale),
        "delete": partial(
            api.delete, f"{MAPS}/one", {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}}
        ),
        "unchanged": partial(api.patch, f"{MAPS}/one", {"data": {"key": "b"}}),
    }
    store.slow = True
    first = asyncio.create_task(api.patch(f"{MAPS}/one", {"data": {"key": "b"}}))
    await _turns()
    second = asyncio.create_task(asked[verb]())
    await _turns()
    assert not second.done()
    store.end("the disk is full")
    assert [(await first).status, (await second).status] == [503, 503]
    assert (await asked[verb]()).status == 200
