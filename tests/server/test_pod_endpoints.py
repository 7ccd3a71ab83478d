"""PodEndpoints: an allowed subset of Pods, updated only when it changes."""

from __future__ import annotations

import asyncio
import gc
from time import thread_time
from typing import Any

import msgspec
import pytest

from tarmac.api.networking.podendpoint import project
from tarmac.base.clock import ManualClock
from tarmac.server.storage.projections import Projection
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, Watching, rest
from tests.server.pods import ALL_ENDPOINTS, CANARY, ENDPOINTS, PODS, STATUS, endpoint, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"
HIDDEN = {"metadata": {"annotations": {"example.com/note": CANARY}}}
VISIBLE = {"metadata": {"labels": {"tier": "front"}}}


async def create(api: Client, name: str = "web", **given: Any) -> Any:
    made = await api.post(PODS, pod(name, **given))
    assert made.status == 201, made.raw
    return made.json


async def run(api: Client, name: str = "web", **given: Any) -> Any:
    await create(api, name, **given)
    return await change(api, name, {"status": STATUS}, "/status")


async def change(api: Client, name: str, patch: dict[str, Any], subresource: str = "") -> Any:
    answer = await api.patch(f"{PODS}/{name}{subresource}", patch)
    assert answer.status == 200, answer.raw
    return answer.json


async def remove(api: Client, name: str = "web") -> None:
    await change(api, name, {"metadata": {"finalizers": None}})
    assert (await api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})).status == 200


async def test_an_endpoint_has_the_fields_it_promises_and_no_other(api: Client) -> None:
    made = (await run(api))["metadata"]
    shown = endpoint("web", made["uid"], made["resourceVersion"])
    assert (await api.get(f"{ENDPOINTS}/web")).json == shown
    listed = (await api.get(ALL_ENDPOINTS)).json
    assert (listed["kind"], listed["items"]) == ("PodEndpointList", [shown])


async def test_nothing_else_of_a_pod_is_in_any_answer(api: Client, clock: ManualClock) -> None:
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await run(api, "before")
    assert CANARY.encode() in (await api.get(f"{PODS}/before")).raw, "the canaries are alive"
    watched: list[Watching] = []
    for accept in ("application/json", TABLE, METADATA, f"{PROTOBUF},application/json", f"{TABLE},application/json"):
        for query in ("watch=1", f"watch=1&{initial}", "watch=1&labelSelector=app%3Dweb&allowWatchBookmarks=1"):
            watched.append(await api.watch(f"{ALL_ENDPOINTS}?{query}&includeObject=Object", accept=accept))
    watched.append(await api.watch(f"{ENDPOINTS}?watch=1&fieldSelector=metadata.name%3Dweb"))
    await run(api)
    for patch in (HIDDEN, VISIBLE, {"metadata": {"labels": {"app": "other"}}}):
        await change(api, "web", patch)
    await remove(api)
    for _ in range(70):
        clock.advance(1)
        await asyncio.sleep(0)
    received = [b"".join(stream.lines) for stream in watched]
    assert all(b"DELETED" in each for each in received)
    assert sum(b"BOOKMARK" in each for each in received) == 10
    answers = [
        (await api.get(f"{path}?includeObject=Object", accept=accept, accept_encoding=encoding)).raw
        for path in (f"{ENDPOINTS}/before", ENDPOINTS, ALL_ENDPOINTS)
        for accept in ("application/json", "application/yaml", TABLE, METADATA, METADATA_LIST, PROTOBUF)
        for encoding in ("identity", "gzip")
    ]
    for raw in (*received, *answers):
        assert CANARY.encode() not in raw, raw


async def test_protobuf_is_not_spoken(api: Client) -> None:
    await run(api)
    assert (await api.get(f"{ENDPOINTS}/web", accept=PROTOBUF)).status == 406


async def test_endpoints_cannot_be_written(api: Client) -> None:
    await run(api)
    body = (await api.get(f"{ENDPOINTS}/web")).json
    refused = [
        await api.post(ENDPOINTS, body),
        await api.put(f"{ENDPOINTS}/web", body),
        await api.patch(f"{ENDPOINTS}/web", {"node": "n2"}),
        await api.patch(f"{ENDPOINTS}/web", body, "apply"),
        await api.delete(f"{ENDPOINTS}/web"),
        await api.delete(ENDPOINTS),
    ]
    assert [answer.status for answer in refused] == [405] * 6
    assert (await api.put(f"{ENDPOINTS}/web/status", body)).status == 404
    assert (await api.get(f"{ENDPOINTS}/web")).json == body


async def test_discovery_and_documents_know_it_as_read_only(api: Client) -> None:
    found = (await api.get("/apis/networking.datumapis.com/v1alpha")).json["resources"]
    (served,) = [each for each in found if each["name"].startswith("podendpoints")]
    assert (served["kind"], served["namespaced"], served["verbs"]) == ("PodEndpoint", True, ["get", "list", "watch"])
    document = (await api.get("/openapi/v3/apis/networking.datumapis.com/v1alpha")).json
    assert set(document["paths"][f"{ALL_ENDPOINTS}"]) == {"get", "parameters"}
    schema = document["components"]["schemas"]["com.datumapis.networking.v1alpha.PodEndpoint"]["properties"]
    assert set(schema) == {*endpoint("", "", ""), "hostNetwork"}


async def test_a_table_says_where_a_pod_is(api: Client) -> None:
    await run(api)
    table = (await api.get(ENDPOINTS, accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Ready", "Phase", "Node", "Addresses"]
    assert table["rows"][0]["cells"] == ["web", True, "Running", "n1", "10.128.0.5"]


async def test_endpoints_are_selected_by_what_is_shown(api: Client) -> None:
    await run(api, "a")
    await create(api, "b", node="n2", tier="back")

    async def names(query: str) -> list[str]:
        found = await api.get(f"{ALL_ENDPOINTS}?{query}")
        assert found.status == 200, found.raw
        return [item["metadata"]["name"] for item in found.json["items"]]

    assert await names("labelSelector=tier%3Dback") == ["b"]
    assert await names("fieldSelector=node%3Dn1") == ["a"]
    assert await names("fieldSelector=node!%3Dn1") == ["b"]
    assert await names("fieldSelector=phase%3DRunning,metadata.name%3Da") == ["a"]
    assert await names("fieldSelector=metadata.name%3Da&limit=1") == ["a"]
    assert await names("limit=1") == ["a"]
    for hidden in ("spec.nodeName", "spec.serviceAccountName", "status.podIP"):
        refused = await api.get(f"{ALL_ENDPOINTS}?fieldSelector={hidden}%3Dx")
        assert (refused.status, refused.message) == (400, f"field label not supported: {hidden}")


async def test_beginning_and_ceasing_to_match_is_seen_as_birth_and_death(api: Client) -> None:
    watching = await api.watch(f"{ALL_ENDPOINTS}?watch=1&fieldSelector=phase%3DRunning&labelSelector=app%3Dweb")
    await run(api)
    await change(api, "web", HIDDEN)
    await change(api, "web", {"metadata": {"labels": {"app": "db"}}})
    ((born, _), (died, last)) = watching.events
    assert (born, died) == ("ADDED", "DELETED")
    assert last["metadata"]["labels"]["app"] == "web"


async def test_a_change_that_is_not_shown_is_no_event(api: Client, clock: ManualClock, store: MemoryStore) -> None:
    await run(api)
    watching = await api.watch(f"{ALL_ENDPOINTS}?watch=1&allowWatchBookmarks=1&resourceVersion={store.revision}")
    plain = await api.watch(f"/api/v1/pods?watch=1&resourceVersion={store.revision}")
    before = store.revision
    for number in range(3):
        await change(api, "web", {"metadata": {"annotations": {"note": str(number)}}})
    assert (len(plain.events), watching.events) == (3, [])
    for _ in range(62):
        clock.advance(1)
        await rest()
    ((kind, bookmark),) = watching.events
    assert (kind, bookmark["metadata"]) == ("BOOKMARK", {"resourceVersion": str(store.revision)})
    assert store.revision > before
    shown = (await api.get(f"{ENDPOINTS}/web")).json
    assert shown["metadata"]["resourceVersion"] == str(store.revision), "the version is the pod's"
    await change(api, "web", VISIBLE)
    ((kind, obj),) = watching.events
    assert (kind, obj["metadata"]["labels"]["tier"]) == ("MODIFIED", "front")


async def test_a_batch_that_shows_nothing_is_no_loss_and_a_loss_is_one(api: Client, store: MemoryStore) -> None:
    await run(api)
    watching = await api.watch(f"{ALL_ENDPOINTS}?watch=1&resourceVersion={store.revision}")
    await change(api, "web", HIDDEN)
    assert (watching.lines, watching.closed) == ([], False)
    for subscriber in store._buckets["core/pods"].subscribers.copy().values():
        subscriber([])  # the signal of a store that lost events
    assert [kind for kind, _ in watching.events] == ["ERROR"]
    assert watching.closed


async def test_a_watch_resumes_behind_a_version_and_repeats_only_what_is_shown(api: Client, store: MemoryStore) -> None:
    await run(api)
    version = store.revision
    for patch in (HIDDEN, VISIBLE, {"metadata": {"annotations": {"more": "x"}}}):
        await change(api, "web", patch)
    watching = await api.watch(f"{ALL_ENDPOINTS}?watch=1&resourceVersion={version}")
    assert [kind for kind, _ in watching.events] == ["MODIFIED"]
    await store.compact(store.revision)
    old = await api.watch(f"{ALL_ENDPOINTS}?watch=1&resourceVersion={version}")
    ((kind, status),) = old.events
    assert (kind, status["code"]) == ("ERROR", 410)


async def test_a_pod_on_its_way_out_is_not_ready(api: Client) -> None:
    await run(api)
    assert (await api.get(f"{ENDPOINTS}/web")).json["ready"] is True
    await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 30})
    assert "ready" not in (await api.get(f"{ENDPOINTS}/web")).json


@pytest.mark.parametrize("owner", [{"kind": "ReplicaSet"}, {"controller": False}, {"apiVersion": "example.com/v1"}])
async def test_a_label_alone_makes_no_instance(api: Client, owner: dict[str, Any]) -> None:
    given = pod()
    given["metadata"]["ownerReferences"][0] |= owner
    await api.post(PODS, given)
    assert "workload" not in (await api.get(f"{ENDPOINTS}/web")).json


@pytest.mark.parametrize("stored", [{"spec": {"containers": 7}}, {"metadata": {"labels": [1]}}, {"status": "well"}])
async def test_a_pod_that_cannot_be_read_is_there_by_its_name(
    api: Client, store: MemoryStore, stored: dict[str, Any]
) -> None:
    metadata = {"name": "odd", "namespace": "default", "note": CANARY, **stored.get("metadata", {})}
    await store.create("core/pods", "default/odd", msgspec.json.encode({**stored, "metadata": metadata}))
    shown = (await api.get(f"{ENDPOINTS}/odd")).json
    assert shown["metadata"] == {"name": "odd", "namespace": "default", "resourceVersion": str(store.revision)}
    assert set(shown) == {"metadata", "kind", "apiVersion"}


async def test_interfaces_that_cannot_be_read_are_none(api: Client) -> None:
    given = pod()
    given["metadata"]["annotations"]["networking.datumapis.com/interfaces"] = f'[{{"network":"{CANARY}"'
    await api.post(PODS, given)
    shown = (await api.get(f"{ENDPOINTS}/web")).raw
    assert CANARY.encode() not in shown
    assert b"interfaces" not in shown


async def test_an_event_is_projected_once_for_all_who_watch(store: MemoryStore) -> None:
    projection = Projection(store, "core/pods", project)
    batches: list[Any] = []
    for _ in range(300):
        projection.subscribe("", batches.append)
    entry = await store.create("core/pods", "default/web", b'{"metadata":{"name":"web"}}')
    await store.update("core/pods", "default/web", b'{"metadata":{"name":"web","labels":{"a":"b"}}}', entry.revision)
    assert (len(batches), projection.made) == (600, 2)
    assert len({id(event) for batch in batches for event in batch}) == 2
    assert len(projection.since("", entry.revision - 1)) == 2
    assert projection.made == 2, "a client that resumes gets cached events"


async def test_a_list_of_one_namespace_looks_at_no_other(store: MemoryStore) -> None:
    projection = Projection(store, "core/pods", project)
    for number in range(300):
        await store.create("core/pods", f"{'ab'[number % 2]}/p{number}", b'{"metadata":{"name":"p"}}')
    waiting = projection.prepared("a/", newest=True)
    assert waiting is not None
    await waiting
    assert projection.made == 150
    assert projection.prepared("a/", newest=True) is None
    assert (len(projection.list("", "a/").entries), projection.made) == (150, 150)


async def test_the_projection_cache_is_bounded_in_bytes(store: MemoryStore) -> None:
    projection = Projection(store, "core/pods", project, most_kept=20_000)
    projection.subscribe("", lambda _: None)
    revision = 0
    for number in range(100):
        labels = msgspec.json.encode({"metadata": {"name": "web", "labels": {"k": f"{number}" + "x" * 2000}}})
        writing = store.update("core/pods", "a/web", labels, revision) if revision else None
        revision = (await (writing or store.create("core/pods", "a/web", labels))).revision
    assert projection._size <= 20_000
    assert projection._size == sum(len(entry.raw) + 300 for entry in projection._kept.values())
    newest = projection.get("", "a/web")
    assert newest is not None
    assert b'"99x' in newest.raw


@pytest.mark.parametrize("query", ["", "resourceVersion=0", "watch=1&resourceVersion=0", "watch=1"])
async def test_a_first_list_of_thousands_holds_nobody_up(api: Client, store: MemoryStore, query: str) -> None:
    for number in range(5000):
        given = pod(f"p{number:04}")
        given["metadata"]["namespace"] = "default"
        await store.create("core/pods", f"default/p{number:04}", msgspec.json.encode({**given, "status": STATUS}))
    gc.collect()
    gc.freeze()  # as the server does after loading: objects of earlier tests must not be collected
    turns: list[float] = []

    async def others() -> None:
        while True:
            begin = thread_time()  # CPU of this thread, so that a busy machine does not count
            await asyncio.sleep(0)
            turns.append(thread_time() - begin)

    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    if "watch" in query:
        assert len((await api.watch(f"{ALL_ENDPOINTS}?{query}")).lines) == 5000
    else:
        assert (await api.get(f"{ALL_ENDPOINTS}?{query}")).raw.count(b'"PodEndpoint"') == 5000
    await asyncio.sleep(0)
    beside.cancel()
    assert len(turns) > 30, "built in steps"
    assert max(turns) < 0.05, sorted(turns)[-3:]
