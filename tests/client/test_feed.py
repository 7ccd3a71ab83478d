"""Feeds: one watch, several readers, and only what they keep of it."""

from __future__ import annotations

import asyncio

from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.client.envelope import Metadata
from tarmac.client.feed import Kept
from tarmac.client.informer import Informers
from tarmac.client.targets import CONFIG_MAPS
from tarmac.client.watch import Change, EventType
from tests.client.model_server import ModelServer

Word = tuple[str, str | None, str | None]


def change(type: EventType, name: str, value: str, uid: str = "1") -> Change:
    return Change(type, Metadata(name=name, namespace="n", uid=uid, resource_version="1"), value.encode())


class Reader:
    """Keeps the text of each object; what says `no` is not kept."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.kept: Kept[str] = Kept(self._read, lambda *word: self.words.append(word))

    def _read(self, change: Change) -> str | None:
        return None if change.raw == b"no" else change.raw.decode()


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
    reader.kept.replaced([change("ADDED", "a", "one"), change("ADDED", "b", "two")])
    reader.words.clear()
    reader.kept.replaced([change("ADDED", "b", "two"), change("ADDED", "c", "three")])
    assert reader.words == [("n/c", None, "three"), ("n/a", "one", None)]
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
