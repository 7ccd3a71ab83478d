"""Events expire an hour after their last write, also when the clock is changed."""

from __future__ import annotations

import pytest

from tarmac.base.clock import ManualClock
from tarmac.server.storage.eventttl import EVENTS, EventExpiry
from tarmac.store.interface import Unavailable
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client

YEAR = 365 * 24 * 3600.0
URL = "/api/v1/namespaces/default/events"


async def tell(api: Client, name: str) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "a"}
    reply = await api.post(URL, {"metadata": {"name": name}, "involvedObject": about, "reason": "x", "type": "Normal"})
    assert reply.status == 201, reply.raw


def names(store: MemoryStore) -> list[str]:
    return [entry.name.rpartition("/")[2] for entry in store.list(EVENTS).entries]


@pytest.mark.parametrize("seconds", [-YEAR, YEAR], ids=["back", "forward"])
async def test_a_clock_that_was_set_keeps_none_and_loses_none(
    seconds: float, api: Client, store: MemoryStore, clock: ManualClock
) -> None:
    """No event expires early or stays, though earlier ones may have a time in the future."""
    expiry = EventExpiry(store, clock)
    expiry.start()
    await tell(api, "before")
    clock.jump(seconds)
    clock.advance(1800)
    await tell(api, "after")
    await expiry.expire()
    assert names(store) == ["after", "before"]
    clock.advance(1801)
    await expiry.expire()
    assert names(store) == ["after"]
    clock.advance(1800)
    await expiry.expire()
    assert names(store) == []
    expiry.stop()


async def test_events_stamped_with_a_time_to_come_expire_after_a_restart_too(
    api: Client, store: MemoryStore, clock: ManualClock
) -> None:
    clock.jump(YEAR)
    await tell(api, "wrong")
    clock.jump(-YEAR)
    await tell(api, "right")
    expiry = EventExpiry(store, clock)
    expiry.start()
    clock.advance(3601)
    await expiry.expire()
    assert names(store) == []
    expiry.stop()


async def test_events_that_a_store_could_not_delete_go_in_the_next_round(
    api: Client, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiry = EventExpiry(store, clock)
    expiry.start()
    await tell(api, "a")
    await tell(api, "b")
    clock.advance(3601)
    with monkeypatch.context() as away:

        def refuse(*_: object) -> None:
            raise Unavailable("the disk is full")

        away.setattr(store, "delete", refuse)
        with pytest.raises(Unavailable):
            await expiry.expire()
    assert names(store) == ["a", "b"]
    await expiry.expire()
    assert names(store) == []
    expiry.stop()
