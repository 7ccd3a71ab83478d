"""A new process on the same place has the same objects, the same revisions, and the history to resume watches from."""

from __future__ import annotations

import asyncio
import base64
import random

import pytest

from tarmac.store.interface import Compacted, Event, Store, Unavailable
from tests.store.conftest import Place
from tests.store.objects import PODS, SECRETS, names, revisions, told, value


class Rot:
    """A sealer with a recognisable key."""

    def __init__(self, key: str = "k1") -> None:
        self._key = f"{key}:".encode()

    @property
    def opened_first(self) -> tuple[tuple[str, str], ...]:
        """No object has to be opened before the rest."""
        return ()

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """Bind the value to its place, as the real sealer does."""
        return self._key + base64.b85encode(name.encode() + b"\0" + value) if bucket == SECRETS else value

    def open(self, bucket: str, name: str, blob: bytes) -> bytes:
        """The value again."""
        if bucket != SECRETS:
            return blob
        if not blob.startswith(self._key):
            raise ValueError("sealed with another key")
        bound, _, value = base64.b85decode(blob[len(self._key) :]).partition(b"\0")
        if bound != name.encode():
            raise ValueError("moved from another name")
        return value


async def _some_history(store: Store) -> list[Event]:
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    dice = random.Random(7)
    for number in range(60):
        name = f"ns/{dice.randrange(8)}"
        head = store.head(PODS, name)
        if head is None:
            await store.create(PODS, name, value(str(number)))
        elif number % 3:
            await store.update(PODS, name, value(str(number)), head.revision)
        else:
            await store.delete(PODS, name, head.revision, value(f"{number} final") if number % 2 else None)
    return events


def _all(events: list[Event]) -> list[tuple[str, int, bytes, bytes | None, int]]:
    return [
        (e.type, e.entry.revision, e.entry.raw, e.previous.raw if e.previous is not None else None, e.entry.created)
        for e in events
    ]


async def test_objects_and_history_survive(durable_place: Place) -> None:
    """Every event is sent again as the first time, from every revision."""
    store = await durable_place.open()
    start = store.revision
    events = await _some_history(store)
    objects = [(e.name, e.revision, e.created, e.raw) for e in store.list(PODS).entries]
    end = store.revision
    await durable_place.close(store)

    store = await durable_place.open()
    assert store.revision >= end
    assert [(e.name, e.revision, e.created, e.raw) for e in store.list(PODS).entries] == objects
    assert _all(list(await store.history(PODS, start))) == _all(events)
    for number in (0, 20, 59):
        resumed = list(await store.history(PODS, events[number].entry.revision))
        assert _all(resumed) == _all(events[number + 1 :])
    entry = await store.create(PODS, "ns/new", value())
    assert entry.revision > end
    assert revisions(await store.history(PODS, end)) == [entry.revision]


async def test_compaction_survives(durable_place: Place) -> None:
    """Compacted events stay unavailable, and the objects are complete."""
    store = await durable_place.open()
    start = store.revision
    events = await _some_history(store)
    floor = events[40].entry.revision
    await store.compact(floor)
    objects = names(store.list(PODS).entries)
    await durable_place.close(store)

    store = await durable_place.open()
    assert names(store.list(PODS).entries) == objects
    assert _all(list(await store.history(PODS, floor))) == _all(events[41:])
    with pytest.raises(Compacted):
        await store.history(PODS, start)


async def test_history_and_subscription_meet_without_a_gap(durable_place: Place) -> None:
    """A watch that resumes over a restart during concurrent writes misses and repeats nothing."""
    store = await durable_place.open()
    start = store.revision
    await _some_history(store)
    await durable_place.close(store)

    store = await durable_place.open()
    all_events: list[Event] = []
    store.subscribe(PODS, all_events.extend)
    before = list(await store.history(PODS, start))
    resumed: list[Event] = []

    async def write() -> None:
        for number in range(50):
            await store.create(PODS, f"late/{number:02}", value())

    async def resume() -> None:
        await asyncio.sleep(0.005)
        events = await store.history(PODS, start)
        store.subscribe(PODS, resumed.extend)
        resumed[:0] = events

    await asyncio.gather(write(), resume())
    assert revisions(resumed) == revisions([*before, *all_events])


async def test_sealed_values_are_never_readable_at_rest(durable_place: Place) -> None:
    """Memory has them plain; the disk, log included, does not."""
    store = await durable_place.open(sealer=Rot())
    start = store.revision
    await store.create(PODS, "ns/plain", value("in the open"))
    secret = await store.create(SECRETS, "ns/a", value("hunter2"))
    secret = await store.update(SECRETS, "ns/a", value("hunter3"), secret.revision)
    kept = await store.create(SECRETS, "ns/b", value("hunter4"))
    await store.delete(SECRETS, "ns/a", secret.revision, value("hunter5"))
    await durable_place.close(store)

    at_rest = durable_place.at_rest()
    assert b"in the open" in at_rest
    for password in (b"hunter2", b"hunter3", b"hunter4", b"hunter5"):
        assert password not in at_rest

    store = await durable_place.open(sealer=Rot())
    found = store.get(SECRETS, "ns/b")
    assert found is not None
    assert found.raw == kept.raw
    assert told(await store.history(SECRETS, start)) == [
        ("ADDED", "ns/a", "hunter2"),
        ("MODIFIED", "ns/a", "hunter3"),
        ("ADDED", "ns/b", "hunter4"),
        ("DELETED", "ns/a", "hunter5"),
    ]


async def test_the_wrong_key_is_named(durable_place: Place) -> None:
    """Starting with another key names the object that cannot be read."""
    store = await durable_place.open(sealer=Rot())
    await store.create(SECRETS, "ns/a", value())
    await durable_place.close(store)
    with pytest.raises(Unavailable, match=r"cannot decrypt core/secrets/ns/a.*another key"):
        await durable_place.open(sealer=Rot("k2"))
