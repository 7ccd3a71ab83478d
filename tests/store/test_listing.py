"""Lists are in name order, by prefix and page, as of now or of any revision that history reaches."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.store.interface import Compacted, FutureRevision, Store
from tests.store.objects import PODS, SECRETS, names, text, value


async def _fill(store: Store, *all_names: str) -> None:
    await asyncio.gather(*(store.create(PODS, name, value(name)) for name in all_names))


async def test_lists_are_sorted_by_name(store: Store) -> None:
    """The order is etcd's order of keys: byte by byte."""
    await _fill(store, "b/2", "a/1", "a-b/1", "a/10", "a/2", "c")
    assert names(store.list(PODS).entries) == ["a-b/1", "a/1", "a/10", "a/2", "b/2", "c"]
    assert store.list(SECRETS).entries == []


async def test_lists_by_prefix(store: Store) -> None:
    """The prefix is a whole namespace: `a/` does not list `a-b` or `ab`."""
    await _fill(store, "a/1", "a/2", "a-b/1", "ab/1", "b/1")
    assert names(store.list(PODS, "a/").entries) == ["a/1", "a/2"]
    assert names(store.list(PODS, "c/").entries) == []


async def test_pages_and_what_remains(store: Store) -> None:
    """`after` continues at the end of a page."""
    await _fill(store, *(f"ns/{number:02}" for number in range(10)), "other/1")
    page = store.list(PODS, "ns/", limit=4)
    assert (names(page.entries), page.remaining) == ([f"ns/{number:02}" for number in range(4)], 6)
    page = store.list(PODS, "ns/", after="ns/03", limit=4)
    assert (names(page.entries), page.remaining) == ([f"ns/{number:02}" for number in range(4, 8)], 2)
    page = store.list(PODS, "ns/", after="ns/07", limit=4)
    assert (names(page.entries), page.remaining) == (["ns/08", "ns/09"], 0)
    assert names(store.list(PODS, after="ns/09").entries) == ["other/1"]


async def test_list_as_of_an_older_revision(store: Store) -> None:
    """The objects of that time: changed, deleted, created and recreated ones alike."""
    await _fill(store, "ns/changed", "ns/deleted", "ns/recreated", "ns/same")
    then = store.revision
    entry = {name: e for e in store.list(PODS).entries for name in [e.name]}
    await store.update(PODS, "ns/changed", value("new"), entry["ns/changed"].revision)
    await store.delete(PODS, "ns/deleted", entry["ns/deleted"].revision)
    await store.delete(PODS, "ns/recreated", entry["ns/recreated"].revision)
    await store.create(PODS, "ns/recreated", value("new"))
    await store.create(PODS, "ns/created", value("new"))

    past = store.list(PODS, revision=then)
    assert past.revision == then
    assert [e.raw for e in past.entries] == [entry[name].raw for name in sorted(entry)]
    assert [text(e) for e in store.list(PODS).entries] == ["new", "new", "new", "ns/same"]
    assert names(store.list(PODS, "ns/d", revision=then).entries) == ["ns/deleted"]


async def test_pages_of_one_snapshot_while_writing(store: Store) -> None:
    """The pages together are the list as of the first one, with any writes between them."""
    await _fill(store, *(f"ns/{number:03}" for number in range(60)))
    expected = [(e.name, e.raw) for e in store.list(PODS).entries]
    then = store.revision
    seen: list[tuple[str, bytes]] = []
    after, remaining = "", 1
    while remaining:
        page = store.list(PODS, "ns/", after=after, limit=7, revision=then)
        seen += [(e.name, e.raw) for e in page.entries]
        after, remaining = page.entries[-1].name, page.remaining
        assert len(seen) + remaining == 60
        number = len(seen)
        for name in (f"ns/{number:03}", f"ns/{(number * 7) % 60:03}"):
            head = store.head(PODS, name)
            if head is not None and number % 2:
                await store.delete(PODS, name, head.revision)
            elif head is not None:
                await store.update(PODS, name, value("changed"), head.revision)
        await store.create(PODS, f"ns/{number:03}-new", value())
    assert seen == expected


async def test_revisions_out_of_reach(store: Store) -> None:
    """Too new is an error of its own, and so is too old."""
    await _fill(store, "ns/a")
    with pytest.raises(FutureRevision) as future:
        store.list(PODS, revision=store.revision + 5)
    assert future.value.current == store.revision
    await _fill(store, "ns/b", "ns/c")
    await store.compact(store.revision)
    with pytest.raises(Compacted):
        store.list(PODS, revision=store.revision - 1)
    assert names(store.list(PODS, revision=store.revision).entries) == ["ns/a", "ns/b", "ns/c"]
