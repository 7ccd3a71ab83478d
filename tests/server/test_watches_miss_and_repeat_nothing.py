"""Watch: every change once and in order, from any start."""

from __future__ import annotations

import pytest

from tarmac.base.clock import ManualClock
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, rest

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def test_the_present_comes_first_then_what_changes(api: Client) -> None:
    await api.configmap("a")
    watching = await api.watch(f"{CONFIGMAPS}?watch=true")
    await api.configmap("b")
    await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
    await api.delete(f"{CONFIGMAPS}/b")
    assert watching.names == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_resumes_behind_a_version(api: Client) -> None:
    first = (await api.configmap("a"))["metadata"]["resourceVersion"]
    await api.configmap("b")
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={first}")
    assert watching.names == [("ADDED", "b")]


async def test_a_deletion_carries_its_own_version(api: Client, store: MemoryStore) -> None:
    await api.configmap("a")
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={store.revision}")
    await api.delete(f"{CONFIGMAPS}/a")
    ((kind, obj),) = watching.events
    assert (kind, obj["metadata"]["resourceVersion"]) == ("DELETED", str(store.revision))


async def test_only_the_namespace_that_is_watched_is_seen(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    here = await api.watch(f"{CONFIGMAPS}?watch=1")
    everywhere = await api.watch("/api/v1/configmaps?watch=1")
    await api.configmap("a")
    await api.configmap("b", "other")
    assert here.names == [("ADDED", "a")]
    assert everywhere.names == [("ADDED", "a"), ("ADDED", "b")]


async def test_beginning_and_ceasing_to_match_is_seen_as_birth_and_death(api: Client) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&labelSelector=tier%3Dweb")
    twin = await api.watch(f"{CONFIGMAPS}?watch=1&labelSelector=tier%3Ddb")
    await api.configmap("a")
    for tier in ("web", "web2", "web"):
        await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"tier": tier}}})
    await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
    await api.delete(f"{CONFIGMAPS}/a")
    assert [kind for kind, _ in watching.events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert twin.events == []


async def test_an_object_that_ceases_to_match_is_shown_as_it_last_matched(api: Client, store: MemoryStore) -> None:
    await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"tier": "web"}}})
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={store.revision}&labelSelector=tier%3Dweb")
    await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"tier": "db"}}})
    ((kind, obj),) = watching.events
    assert (kind, obj["metadata"]["labels"]) == ("DELETED", {"tier": "web"})
    assert obj["metadata"]["resourceVersion"] == str(store.revision)


async def test_one_object_is_watched_by_name(api: Client) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name%3Db")
    old_form = await api.watch("/api/v1/watch/namespaces/default/configmaps/b")
    for name in "abc":
        await api.configmap(name)
    assert watching.names == [("ADDED", "b")]
    assert old_form.names == [("ADDED", "b")]


async def test_a_name_is_watched_in_every_namespace(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    watching = await api.watch("/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Db")
    namespaces = await api.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Db")
    for name in ("b", "a", "ab"):
        await api.configmap(name)
        await api.configmap(name, "other")
        await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert watching.names == [("ADDED", "b"), ("ADDED", "b")]
    assert namespaces.names == [("ADDED", "b")]


async def test_the_end_of_the_initial_state_is_marked_for_those_who_ask(api: Client, store: MemoryStore) -> None:
    await api.configmap("a")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    (first, last) = (await api.watch(f"{CONFIGMAPS}?{query}")).events
    assert (first[0], first[1]["metadata"]["name"]) == ("ADDED", "a")
    assert last[0] == "BOOKMARK"
    assert last[1]["metadata"] == {
        "resourceVersion": str(store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_bookmarks_come_every_minute_and_before_the_end(
    api: Client, clock: ManualClock, store: MemoryStore
) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=100")
    quiet = await api.watch(f"{CONFIGMAPS}?watch=1&timeoutSeconds=100")
    await api.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    seen: list[tuple[int, str]] = []
    for second in range(1, 103):
        clock.advance(1)
        await rest()
        seen += [(second, obj["metadata"]["resourceVersion"]) for _, obj in watching.events]
    assert seen == [(60, str(store.revision)), (98, str(store.revision))]
    assert quiet.events == []
    assert watching.closed
    assert quiet.closed


async def test_a_watch_without_a_time_limit_lasts_half_an_hour_or_more(api: Client, clock: ManualClock) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1")
    clock.advance(1799)
    await rest()
    assert not watching.closed
    clock.advance(1802)
    await rest()
    assert watching.closed


async def test_a_forgotten_version_ends_the_watch_with_410(api: Client, store: MemoryStore) -> None:
    await api.configmap("a")
    await api.configmap("b")
    await store.compact(store.revision)
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=2")
    ((kind, status),) = watching.events
    assert kind == "ERROR"
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert watching.closed


async def test_a_version_that_never_was_ends_the_watch_with_410(api: Client, store: MemoryStore) -> None:
    """Such a version is another store's; changes up to that number would be skipped silently."""
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={store.revision + 1}")
    await api.configmap("a")
    ((kind, status),) = watching.events
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith("too large resource version: ")
    assert watching.closed


async def test_lost_events_end_the_watch_with_410(api: Client, store: MemoryStore) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1")
    for subscriber in store._buckets["core/configmaps"].subscribers.copy().values():
        subscriber([])  # the signal of a store that lost events
    assert [kind for kind, _ in watching.events] == ["ERROR"]
    assert watching.closed


async def test_a_client_that_does_not_read_harms_nobody(api: Client) -> None:
    slow = await api.watch(f"{CONFIGMAPS}?watch=1")
    quick = await api.watch(f"{CONFIGMAPS}?watch=1")
    slow.accepting = False
    await api.configmap("a")
    await api.configmap("b")
    assert quick.names == [("ADDED", "a"), ("ADDED", "b")]
    assert slow.closed


async def test_events_during_a_large_initial_state_follow_it(api: Client, clock: ManualClock) -> None:
    for index in range(30):
        await api.configmap(f"c{index:02}", k="x" * 10_000)
    watching = await api.watch(f"{CONFIGMAPS}?watch=1")
    await api.configmap("later")
    assert len(watching.events) == 30
    clock.advance(1)
    await rest()
    assert watching.names == [("ADDED", "later")]


async def test_a_table_has_its_titles_once(api: Client) -> None:
    watching = await api.watch(
        f"{CONFIGMAPS}?watch=1&includeObject=None", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    await api.configmap("a")
    await api.configmap("b")
    (_, first), (_, second) = watching.events
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"


async def test_metadata_alone_can_be_watched(api: Client) -> None:
    watching = await api.watch(
        f"{CONFIGMAPS}?watch=1", accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    )
    await api.configmap("a", k="v")
    ((_, obj),) = watching.events
    assert sorted(obj) == ["apiVersion", "kind", "metadata"]


async def test_nothing_is_kept_for_watchers_that_left(api: Client, store: MemoryStore) -> None:
    before = len(store._buckets["core/configmaps"].subscribers) if "core/configmaps" in store._buckets else 0
    streams = [await api.watch(f"{CONFIGMAPS}?watch=1&labelSelector=a%3D{index}") for index in range(3)]
    streams.append(await api.watch(f"{CONFIGMAPS}?watch=1&fieldSelector=metadata.name%3Da"))
    for stream in streams:
        stream.close()
    assert len(store._buckets["core/configmaps"].subscribers) == before
    assert b"apiserver_registered_watchers 0\n" in (await api.get("/metrics")).raw


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("sendInitialEvents=true", 422, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ("resourceVersion=x", 500, 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x"'),
        ("labelSelector=a%3Db%3Dc", 400, "found '=', expected: ',' or 'end of string'"),
    ],
)
async def test_wrong_options_are_refused(api: Client, query: str, status: int, message: str) -> None:
    refused = await api.get(f"{CONFIGMAPS}?watch=1&{query}")
    assert refused.status == status
    assert message in refused.message


async def test_protobuf_alone_cannot_be_watched(api: Client) -> None:
    refused = await api.get(f"{CONFIGMAPS}?watch=1", accept="application/vnd.kubernetes.protobuf;stream=watch")
    assert refused.status == 406
