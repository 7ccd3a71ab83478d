"""A projection is a store for readers: no change is missed or repeated, and none without an effect is sent.

Every driver gets random changes, some of which the projection hides. Watchers begin at random moments, from the
present, from an earlier version, or from the log; in the end the state of each equals a list.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from tarmac.server.storage.projections import Projection
from tarmac.store.interface import Compacted, Entry, Event, Store, unsplice
from tests.store.conftest import Place

BUCKET = "core/pods"
NAMES = [f"{namespace}/{name}" for namespace in "ab" for name in ("x", "y", "z")]


def project(key: str, raw: bytes) -> bytes:
    shown = msgspec.json.decode(raw)["shown"]
    return msgspec.json.encode({"metadata": {"name": key}, "shown": shown})


def value(name: str, shown: int, hidden: int) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}, "shown": shown, "hidden": hidden})


class Watcher:
    """Applies events to its start state."""

    def __init__(self, projection: Projection, prefix: str, state: Sequence[Entry], revision: int) -> None:
        self.prefix = prefix
        self.held = {entry.name: unsplice(entry) for entry in state}
        self.revision = revision
        self.end: Callable[[], None] = lambda: None
        self._projection = projection

    def follow(self, missed: Sequence[Event]) -> None:
        """Continue from now on. No await between the missed events and the subscription."""
        self.take(missed)
        self.end = self._projection.subscribe(BUCKET, self.take)

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            entry = event.entry
            if not entry.name.startswith(self.prefix):
                continue
            assert entry.revision > self.revision, "in order, each once"
            assert entry.raw.startswith(b'{"metadata":{"resourceVersion":"%d"' % entry.revision)
            self.revision = entry.revision
            known = self.held.get(entry.name)
            assert (known is None) == (event.type == "ADDED"), "as its type says"
            if event.type == "DELETED":
                del self.held[entry.name]
            else:
                assert known != unsplice(entry), "a change that shows"
                self.held[entry.name] = unsplice(entry)


class Changes:
    """Makes random changes, and the model of their result."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        self._store = store
        self._dice = dice
        self.model: dict[str, int] = {}

    async def make(self) -> None:
        name = self._dice.choice(NAMES)
        hidden, shown = self._dice.randrange(1000), self._dice.randrange(3)
        entry = self._store.head(BUCKET, name)
        if entry is None:
            await self._store.create(BUCKET, name, value(name, shown, hidden))
        elif self._dice.random() < 0.15:
            del self.model[name]
            await self._store.delete(BUCKET, name, entry.revision, value(name, shown, hidden))
            return
        else:
            await self._store.update(BUCKET, name, value(name, shown, hidden), entry.revision)
        self.model[name] = shown

    def held(self, prefix: str) -> dict[str, bytes]:
        stored = {name: value(name, shown, 0) for name, shown in self.model.items() if name.startswith(prefix)}
        return {name: project(name, raw) for name, raw in stored.items()}


async def begin(projection: Projection, dice: random.Random, seen: list[tuple[int, dict[str, bytes]]]) -> Watcher:
    """Return a watcher with the present state, or with an earlier one and the events since."""
    prefix = dice.choice(("", "a/"))
    if dice.random() < 0.5:
        page = projection.list(BUCKET, prefix)
        watcher = Watcher(projection, prefix, page.entries, page.revision)
        watcher.follow(())
        return watcher
    revision, state = dice.choice(seen)
    watcher = Watcher(projection, prefix, (), revision)
    watcher.held = {name: raw for name, raw in state.items() if name.startswith(prefix)}
    try:
        missed = projection.since(BUCKET, revision, prefix)
    except Compacted:
        missed = await projection.history(BUCKET, revision, prefix)
    watcher.follow(missed)
    return watcher


def _state(projection: Projection) -> tuple[int, dict[str, bytes]]:
    page = projection.list(BUCKET)
    return page.revision, {entry.name: unsplice(entry) for entry in page.entries}


@pytest.mark.parametrize("seed", range(4))
async def test_watchers_of_a_projection_miss_and_repeat_nothing(place: Place, seed: int) -> None:
    store, dice = await place.open(), random.Random(seed)
    projection = Projection(store, BUCKET, project, most_kept=dice.choice((500, 5_000, 1 << 20)))
    changes, watchers, seen = Changes(store, dice), list[Watcher](), [_state(projection)]
    for _ in range(150):
        await changes.make()
        if dice.random() < 0.1:
            watchers.append(await begin(projection, dice, seen))
        if dice.random() < 0.1:
            seen.append(_state(projection))
        if watchers and dice.random() < 0.03:
            watchers.pop(dice.randrange(len(watchers))).end()
        waiting = projection.prepared(dice.choice(("", "a/")), newest=True)
        if waiting is not None:
            await waiting
    for watcher in watchers:
        assert watcher.held == changes.held(watcher.prefix)
    assert _state(projection)[1] == changes.held("")


async def test_a_projection_resumes_on_a_store_that_was_opened_again(durable_place: Place) -> None:
    store, dice = await durable_place.open(), random.Random(7)
    changes = Changes(store, dice)
    for _ in range(20):
        await changes.make()
    revision, state = _state(Projection(store, BUCKET, project))
    for _ in range(40):
        await changes.make()
    await durable_place.close(store)
    store = await durable_place.open()
    projection = Projection(store, BUCKET, project)
    watcher = Watcher(projection, "", (), revision)
    watcher.held = dict(state)
    watcher.follow(await projection.history(BUCKET, revision))
    assert watcher.held == changes.held("")


async def test_history_is_complete_though_the_store_goes_on_while_it_is_made(place: Place) -> None:
    store, dice = await place.open(), random.Random(3)
    changes, beginning = Changes(store, dice), store.revision
    for _ in range(300):
        await changes.make()
    projection = Projection(store, BUCKET, project)
    watcher = Watcher(projection, "", (), beginning)
    busy = store.create(BUCKET, "b/late", value("b/late", 1, 1))
    watcher.follow(await projection.history(BUCKET, beginning))
    await busy
    assert watcher.held == {**changes.held(""), "b/late": project("b/late", value("b/late", 1, 1))}
