"""Feeds: one watch, several readers, and only the parts that they keep."""

from __future__ import annotations

import asyncio
import json

import pytest

from tarmac.base import cooperative
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.client.feed import Kept
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.client.watch import Change, EventType
from tests.client.model_server import ModelServer

Word = tuple[str, str | None, str | None]


def change(type: EventType, name: str, value: str, uid: str = "1") -> Change:
    return Change(type, EnvelopeMetadata(name=name, namespace="n", uid=uid, resource_version="1"), value.encode())


class Reader:
    """Keeps the text of each object, except for `no`."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.kept: Kept[str] = Kept(self._read, lambda *word: self.words.append(word))

    def _read(self, change: Change) -> str | None:
        return None if change.raw == b"no" else change.raw.decode()


def take(kept: Kept[str], state: list[Change]) -> None:
    """Take a whole state, without a pause."""
    for _ in kept.replaced(state):
        pass


def test_differences_are_told_and_nothing_else() -> None:
    reader = Reader()
    kept = reader.kept
    kept.changed(change("ADDED", "a", "one"))
    kept.changed(change("MODIFIED", "a", "one"))
    kept.changed(change("MODIFIED", "a", "two"))
    kept.changed(change("ADDED", "b", "no"))
    kept.changed(change("MODIFIED", "a", "no"))
    kept.changed(change("DELETED", "a", "no"))
    assert reader.words == [("n/a", None, "one"), ("n/a", "one", "two"), ("n/a", "two", None)]


def test_a_late_word_about_another_object_of_the_same_name_is_none() -> None:
    reader = Reader()
    reader.kept.changed(change("ADDED", "a", "one", uid="2"))
    reader.kept.changed(change("DELETED", "a", "zero", uid="1"))
    assert reader.kept.by_key == {"n/a": "one"}


def test_a_new_state_replaces_the_old_one() -> None:
    reader = Reader()
    take(reader.kept, [change("ADDED", "a", "one"), change("ADDED", "b", "two")])
    reader.words.clear()
    take(reader.kept, [change("ADDED", "b", "two"), change("ADDED", "c", "three")])
    assert reader.words == [("n/a", "one", None), ("n/c", None, "three")]
    assert reader.kept.by_key == {"n/b": "two", "n/c": "three"}


async def test_readers_share_a_watch() -> None:
    clock = ManualClock()
    server = ModelServer(clock=clock)
    client = Client(server.transport(), clock)
    informers = Informers(client)
    readers = [Kept[str](lambda change: change.metadata.name, lambda *_: None) for _ in range(2)]
    for reader in readers:
        informers.feed(CONFIG_MAPS).add(reader)
    running = asyncio.create_task(informers.run())
    await informers.feed(CONFIG_MAPS).synced()
    await client.resource(CONFIG_MAPS).create({"metadata": {"name": "one", "namespace": "default"}})
    async with asyncio.timeout(5):
        while not all(reader.by_key for reader in readers):
            await asyncio.sleep(0)
    assert [reader.by_key for reader in readers] == [{"default/one": "one"}] * 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_large_state_is_taken_in_pieces_and_changes_wait_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "_SLICE_SECONDS", 0.0)
    clock = ManualClock()
    server = ModelServer(clock=clock)
    client = Client(server.transport(), clock)
    maps = client.resource(CONFIG_MAPS)
    for number in range(20):
        await maps.create({"metadata": {"name": f"m{number}", "namespace": "default"}, "data": {"v": "old"}})
    informers = Informers(client)
    feed, informer = informers.feed(CONFIG_MAPS), informers.informer(CONFIG_MAPS)
    values: dict[str, list[str]] = {}

    def told(key: str, _: str | None, value: str | None) -> None:
        values.setdefault(key, []).append(value or "")

    kept = Kept[str](lambda change: json.loads(change.raw)["data"]["v"], told)
    feed.add(kept)
    running = asyncio.create_task(informers.run())
    async with asyncio.timeout(5):
        while not kept.by_key:
            await asyncio.sleep(0)
        assert len(kept.by_key) < 20, "the state came in one go"
        for number in (19, 0):  # one that is yet to be taken, one that is not
            await maps.patch(f"m{number}", {"data": {"v": "new"}}, namespace="default")
        await maps.delete("m18", namespace="default")
        while kept.by_key.get("default/m19") != "new" or "default/m18" in kept.by_key:
            await asyncio.sleep(0)
        while "default/m18" in informer.cache:
            await asyncio.sleep(0)
    assert values["default/m0"] == values["default/m19"] == ["old", "new"]
    assert len(kept.by_key) == len(informer.cache) == 19
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
