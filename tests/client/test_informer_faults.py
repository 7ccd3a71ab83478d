"""After any fault of the connection, an informer's copy is exact, and its handlers get each change once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from tarmac.api import status
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.cache import Item, by_label, by_namespace, by_owner
from tarmac.client.client import Client
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.untyped import CONFIG_MAPS
from tests.client.model_server import ModelServer

Json = dict[str, Any]


class World:
    """A model server, a client to it, and an informer with all calls of its handler."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.server = ModelServer(clock=self.clock, **options)
        self.client = Client(self.server.transport(), self.clock, Randomness(1))
        self.informers = Informers(self.client)
        self.informer: Informer[Json] = self.informers.informer(CONFIG_MAPS)
        self.heard: list[tuple[str, str, str]] = []
        self.informer.on_change(self._hear)

    def _hear(self, old: Item[Json] | None, new: Item[Json] | None) -> None:
        item = new or old
        assert item is not None
        verb = "added" if old is None else "removed" if new is None else "changed"
        self.heard.append((verb, item.metadata.name, item.object.get("data", {}).get("v", "")))

    async def settle(self) -> None:
        """Run all tasks that need no time; then let timers expire."""
        for _ in range(6):
            for _ in range(20):
                await asyncio.sleep(0)
            self.clock.advance(60)

    def copy(self) -> dict[str, str]:
        return {item.key: item.metadata.resource_version for item in self.informer.cache.items()}

    def truth(self) -> dict[str, str]:
        return {
            f"{place.namespace}/{place.name}": obj["metadata"]["resourceVersion"]
            for place, obj in self.server.objects.items()
            if place.kind.plural == "configmaps"
        }

    def put(self, name: str, value: str, **metadata: Any) -> None:
        self.server.put("configmaps", name, data={"v": value}, metadata=metadata)


@asynccontextmanager
async def world(**options: Any) -> AsyncGenerator[World]:
    made = World(**options)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.informers.run())
        yield made
        running.cancel()


async def test_handlers_hear_what_is_there_and_then_every_change() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        w.put("a", "2")
        w.put("b", "1")
        w.server.remove("configmaps", "a")
        await w.settle()
        assert w.heard == [("added", "a", "1"), ("changed", "a", "2"), ("added", "b", "1"), ("removed", "a", "2")]
        assert w.informer.has_synced


async def test_a_server_without_streaming_lists_is_listed_in_pages() -> None:
    made = World(streaming_lists=False)
    for number in range(1203):
        made.put(f"c{number:04}", "1")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.informers.run())
        await made.settle()
        assert made.copy() == made.truth()
        assert made.informer.stats.lists == 1
        item = made.informer.cache.item("default/c0000")
        assert item is not None
        assert item.object["kind"] == "ConfigMap", "items of lists get the type that events carry"
        running.cancel()


async def test_a_snapshot_lost_between_pages_is_listed_whole() -> None:
    made = World(streaming_lists=False)
    for number in range(600):
        made.put(f"c{number:04}", "1")
    pages = 0

    def compact_after_first_page(method: str, path: str) -> None:
        nonlocal pages
        pages += path.endswith("/configmaps")
        if pages == 3:  # the refused stream, the first page, and now the second
            made.server.put("secrets", "unrelated")
            made.server.compact()

    made.server.hooks.append(compact_after_first_page)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.informers.run())
        await made.settle()
        assert made.copy() == made.truth()
        running.cancel()


@pytest.mark.parametrize(
    "last_words", [b"", b'{"type":"ADDED","obj', b"\x00\xff garbage\n", b'{"type":"WHAT","object":{}}\n']
)
async def test_a_broken_stream_is_resumed_and_not_relisted(last_words: bytes) -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        w.server.cut(last_words)
        w.put("a", "2")
        w.server.remove("configmaps", "a")
        w.put("a", "3")
        await w.settle()
        assert w.heard[1:] == [("changed", "a", "2"), ("removed", "a", "2"), ("added", "a", "3")]
        assert (w.informer.stats.lists, w.informer.stats.resumes) == (1, 1)


async def test_a_bookmark_moves_the_point_of_resumption() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        w.server.put("secrets", "noise")
        w.server.bookmark_all()
        await w.settle()
        w.server.compact()
        w.server.cut()
        w.put("a", "2")
        await w.settle()
        assert w.copy() == w.truth()
        assert w.informer.stats.lists == 1, "without the bookmark the version would have been compacted"


async def test_lost_history_relists_and_tells_only_the_difference() -> None:
    async with world() as w:
        for name in ("kept", "changed", "gone", "replaced"):
            w.put(name, "1")
        await w.settle()
        w.heard.clear()
        w.server.cut()
        w.put("changed", "2")
        w.server.remove("configmaps", "gone")
        w.server.remove("configmaps", "replaced")
        w.put("replaced", "other object")
        w.put("new", "1")
        w.server.compact()
        await w.settle()
        assert sorted(w.heard) == [
            ("added", "new", "1"),
            ("added", "replaced", "other object"),
            ("changed", "changed", "2"),
            ("removed", "gone", "1"),
            ("removed", "replaced", "1"),
        ]
        assert w.informer.stats.lists == 2


async def test_repeated_events_are_heard_once() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        w.put("a", "2")
        w.server.remove("configmaps", "a")
        w.put("b", "1")
        await w.settle()
        heard = list(w.heard)
        w.server.repeat(3)
        await w.settle()
        assert w.heard == heard
        assert w.informer.stats.repeats == 2


async def test_a_repeated_departure_from_a_selection_does_not_undo_the_return() -> None:
    async with world() as w:
        chosen = w.informers.informer(CONFIG_MAPS, labels="app=web")
        for app in ("web", "db", "web"):
            w.put("a", app, labels={"app": app})
            await w.settle()
        w.server.repeat(2)
        await w.settle()
        assert chosen.cache.keys() == ["default/a"]


async def test_a_deletion_that_shows_the_last_version_is_a_deletion() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        (watcher,) = w.server.watchers
        place, obj = w.server.objects.popitem()
        assert place.name == "a"
        watcher.sink.write(json.dumps({"type": "DELETED", "object": obj}).encode() + b"\n")
        await w.settle()
        assert w.heard == [("added", "a", "1"), ("removed", "a", "1")]


async def test_a_late_deletion_does_not_remove_the_objects_successor() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        old = w.server.find("configmaps", "a")
        w.server.remove("configmaps", "a")
        w.put("a", "2")
        await w.settle()
        (watcher,) = w.server.watchers
        watcher.sink.write(json.dumps({"type": "DELETED", "object": old}).encode() + b"\n")
        await w.settle()
        assert w.copy() == w.truth()


async def test_an_error_event_of_410_relists_and_any_other_resumes() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        error = status.InternalError("etcd is away")
        w.server.cut(json.dumps({"type": "ERROR", "object": error.status()}).encode() + b"\n")
        await w.settle()
        assert w.informer.stats.lists == 1
        gone = status.Gone("too old")
        w.server.cut(json.dumps({"type": "ERROR", "object": gone.status()}).encode() + b"\n")
        await w.settle()
        assert w.informer.stats.lists == 2
        assert w.heard == [("added", "a", "1")]


async def test_a_server_restored_from_an_older_state_is_noticed_by_its_bookmarks() -> None:
    async with world() as w:
        w.put("a", "1")
        w.put("b", "1")
        await w.settle()
        place = next(place for place in w.server.objects if place.name == "b")
        del w.server.objects[place]
        w.server.version -= 1
        w.server.bookmark_all()
        await w.settle()
        assert w.copy() == w.truth()
        assert w.heard[-1] == ("removed", "b", "1")


async def test_refusals_are_waited_out() -> None:
    made = World()
    made.put("a", "1")
    made.server.refuse(status.ServiceUnavailable("starting"), times=3)
    made.server.refuse(status.Unauthorized("who?"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.informers.run())
        await made.settle()
        assert made.copy() == made.truth()
        assert made.informer.stats.errors == 4
        running.cancel()


async def test_a_server_that_closes_every_watch_at_once_is_not_hammered() -> None:
    async with world() as w:
        await w.settle()
        w.server.hooks.append(lambda _method, _path: w.server.cut())
        before = len(w.server.requests)
        w.server.cut()
        for _ in range(300):
            await asyncio.sleep(0)
        assert len(w.server.requests) - before <= 2


async def test_a_server_whose_history_is_always_gone_is_not_hammered() -> None:
    made = World(streaming_lists=False)
    made.server.compacted = 10**9
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.informers.run())
        for _ in range(300):
            await asyncio.sleep(0)
        assert made.informer.has_synced
        assert len(made.server.requests) == 6, "twice: refused stream, page, watch; then a pause"
        running.cancel()


async def test_selectors_turn_leaving_into_removal() -> None:
    async with world() as w:
        chosen = w.informers.informer(CONFIG_MAPS, labels="app=web")
        w.put("a", "1", labels={"app": "web"})
        await w.settle()
        assert chosen.cache.keys() == ["default/a"]
        w.put("a", "2", labels={"app": "db"})
        await w.settle()
        assert chosen.cache.keys() == []


async def test_indexes_follow_the_objects() -> None:
    async with world() as w:
        w.informer.add_index("namespace", by_namespace)
        w.informer.add_index("app", by_label("app"))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}
        w.put("a", "1", labels={"app": "web"}, ownerReferences=[owner])
        w.put("b", "1", labels={"app": "web"})
        await w.settle()
        w.informer.add_index("owner", by_owner)
        w.informer.add_index("value", lambda item: [item.object["data"]["v"]])

        def names(index: str, value: str) -> list[str]:
            return [item.metadata.name for item in w.informer.indexed(index, value)]

        assert names("namespace", "default") == ["a", "b"]
        assert names("app", "web") == ["a", "b"]
        assert names("owner", "u1") == ["a"]
        w.put("a", "2", labels={"app": "db"}, ownerReferences=[])
        w.server.remove("configmaps", "b")
        await w.settle()
        assert (names("app", "web"), names("app", "db"), names("owner", "u1")) == ([], ["a"], [])
        assert (names("value", "1"), names("value", "2")) == ([], ["a"])


async def test_one_failing_handler_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        second: list[str] = []

        def fail(_old: Any, _new: Any) -> None:
            raise RuntimeError("bug")

        w.informer.on_change(fail)
        w.informer.on_change(lambda _old, new: second.append(new.key if new else ""))
        w.put("a", "1")
        await w.settle()
        assert second == ["default/a"]
        assert "handler failed" in capsys.readouterr().err


async def test_a_late_handler_hears_what_is_there() -> None:
    async with world() as w:
        w.put("a", "1")
        await w.settle()
        late: list[str] = []
        w.informer.on_change(lambda old, new: late.append(new.key if new and not old else "?"))
        assert late == ["default/a"]


def test_random_faults_never_lose_or_invent_an_event() -> None:
    """After random faults the copy equals the server's state; the handler's calls replay to it, step by step."""

    @seed(20261115)
    @given(st.integers(0, 2**32), st.booleans())
    def storm(number: int, streaming: bool) -> None:
        asyncio.run(_storm(random.Random(number), streaming))

    storm()


async def _storm(dice: random.Random, streaming: bool) -> None:
    async with world(streaming_lists=streaming) as w:
        replayed: dict[str, tuple[str, str]] = {}
        complaints: list[str] = []
        w.informer.on_change(lambda old, new: complaints.extend(_replay(replayed, old, new)))
        faults = _faults(w, dice)
        for _ in range(dice.randrange(5, 40)):
            if dice.random() < 0.6:
                name = dice.choice("abcd")
                if dice.random() < 0.3 and w.server.find("configmaps", name):
                    w.server.remove("configmaps", name)
                else:
                    w.put(name, str(dice.random()))
            else:
                dice.choice(faults)()
            if dice.random() < 0.5:
                for _ in range(dice.randrange(1, 12)):
                    await asyncio.sleep(0)
                w.clock.advance(dice.choice((0.05, 1.0, 40.0)))
        w.server.refusals.clear()
        await w.settle()
        assert w.copy() == w.truth()
        assert complaints == []
        assert {key: version for key, (_, version) in replayed.items()} == w.truth()


def _faults(w: World, dice: random.Random) -> list[Callable[[], Any]]:
    return [
        w.server.cut,
        lambda: w.server.cut(b'{"type":"MODIFIED","object":{"metad'),
        lambda: w.server.cut(b"<html>bad gateway</html>\n"),
        w.server.compact,
        w.server.bookmark_all,
        lambda: w.server.repeat(dice.randrange(1, 6)),
        lambda: w.server.refuse(status.TooManyRequests("slow down", details={"retryAfterSeconds": 1})),
        lambda: w.server.refuse(status.ServiceUnavailable("restarting"), times=dice.randrange(1, 4)),
    ]


def _replay(copy: dict[str, tuple[str, str]], old: Item[Json] | None, new: Item[Json] | None) -> list[str]:
    """Each step must fit the one before it, or an event was lost or invented."""
    item = new or old
    assert item is not None
    known = copy.get(item.key)
    wrong: list[str] = []
    if old is None and known is not None:
        wrong.append("appeared twice")
    if old is not None and (known is None or known[0] != old.metadata.uid):
        wrong.append("changed or removed without having appeared")
    if new is None:
        copy.pop(item.key, None)
    else:
        if known is not None and int(new.metadata.resource_version) <= int(known[1]):
            wrong.append("went back in time")
        copy[new.key] = (new.metadata.uid, new.metadata.resource_version)
    return wrong
