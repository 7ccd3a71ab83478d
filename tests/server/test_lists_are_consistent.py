"""List: pages of one revision, selectors, versions, shapes."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from tarmac.base.clock import ManualClock
from tarmac.http.messages import Response
from tarmac.server.storage.listcache import CachedAnswer, ListCache
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, Reply

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.raw
    return [item["metadata"]["name"] for item in reply.json["items"]]


async def test_items_say_no_kind_and_the_list_says_its_version(api: Client, store: MemoryStore) -> None:
    await api.configmap("b", k="v")
    await api.configmap("a")
    listed = (await api.get(CONFIGMAPS)).json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert listed["metadata"] == {"resourceVersion": str(store.revision)}
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert not {"kind", "apiVersion"} & listed["items"][1].keys()
    assert listed["items"][1]["data"] == {"k": "v"}


async def test_a_list_is_of_one_namespace_or_of_all(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await api.configmap("a")
    await api.configmap("b", "other")
    assert names(await api.get(CONFIGMAPS)) == ["a"]
    assert names(await api.get("/api/v1/configmaps")) == ["a", "b"]
    assert names(await api.get("/api/v1/namespaces/nowhere/configmaps")) == []


async def test_pages_are_of_the_moment_of_the_first(api: Client) -> None:
    for name in "abcde":
        await api.configmap(name)
    first = (await api.get(f"{CONFIGMAPS}?limit=2")).json
    assert first["metadata"]["remainingItemCount"] == 3
    await api.configmap("cc")
    await api.delete(f"{CONFIGMAPS}/d")
    second = await api.get(f"{CONFIGMAPS}?limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["c", "d"]
    last = await api.get(f"{CONFIGMAPS}?limit=2&continue={second.json['metadata']['continue']}")
    assert names(last) == ["e"]
    assert last.json["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_a_token_of_a_forgotten_moment_comes_back_with_a_fresh_one(api: Client, store: MemoryStore) -> None:
    for name in "abc":
        await api.configmap(name)
    token = (await api.get(f"{CONFIGMAPS}?limit=1")).json["metadata"]["continue"]
    await api.configmap("bb")
    await store.compact(store.revision)
    expired = await api.get(f"{CONFIGMAPS}?limit=1&continue={token}")
    assert (expired.status, expired.json["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in expired.message
    fresh = expired.json["metadata"]["continue"]
    assert names(await api.get(f"{CONFIGMAPS}?limit=5&continue={fresh}")) == ["b", "bb", "c"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("labelSelector=tier%3Dweb", ["a"]),
        ("labelSelector=tier!%3Dweb", ["b", "c"]),
        ("labelSelector=tier", ["a", "b"]),
        ("labelSelector=tier in (web,db)", ["a", "b"]),
        ("fieldSelector=metadata.name%3Db", ["b"]),
        ("fieldSelector=metadata.name!%3Db,metadata.namespace%3Ddefault", ["a", "c"]),
        ("labelSelector=tier&limit=1", ["a"]),
    ],
)
async def test_selectors(api: Client, selector: str, found: list[str]) -> None:
    for name, labels in (("a", {"tier": "web"}), ("b", {"tier": "db"}), ("c", {})):
        await api.post(CONFIGMAPS, {"metadata": {"name": name, "labels": labels}})
    assert names(await api.get(f"{CONFIGMAPS}?{selector}")) == found


async def test_a_selection_shows_a_write_that_came_before(api: Client) -> None:
    await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}})
    url = f"{CONFIGMAPS}?labelSelector=x%3D1"
    assert names(await api.get(url)) == ["a"]
    await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"x": "2"}}})
    assert names(await api.get(url)) == []
    await api.post(CONFIGMAPS, {"metadata": {"name": "b", "labels": {"x": "1"}}})
    assert names(await api.get(url)) == ["b"]


async def test_a_kept_answer_does_not_outlive_what_can_be_watched(
    api: Client, store: MemoryStore, clock: ManualClock
) -> None:
    await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}})
    url = f"{CONFIGMAPS}?labelSelector=x%3D1"
    first = (await api.get(url)).json["metadata"]["resourceVersion"]
    await api.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    assert (await api.get(url)).json["metadata"]["resourceVersion"] == first
    clock.advance(60)
    assert (await api.get(url)).json["metadata"]["resourceVersion"] == str(store.revision)


async def test_versions(api: Client) -> None:
    first = (await api.configmap("a"))["metadata"]["resourceVersion"]
    await api.configmap("b")
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={first}&resourceVersionMatch=Exact")) == ["a"]
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={first}&resourceVersionMatch=NotOlderThan")) == ["a", "b"]
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={first}")) == ["a", "b"]
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion=0")) == ["a", "b"]
    future = await api.get(f"{CONFIGMAPS}?resourceVersion=999999")
    assert future.status == 504
    assert future.message.startswith("Timeout: Too large resource version: 999999, current: ")
    assert future.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("labelSelector=a%3Db%3Dc", 400, "found '=', expected: ',' or 'end of string'"),
        ("fieldSelector=spec.x%3D1", 400, '"spec.x" is not a known field selector: only "metadata.name"'),
        ("resourceVersion=x", 400, 'invalid resource version: resourceVersion: Invalid value: "x"'),
        ("resourceVersionMatch=Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limit=1_0", 400, 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        (f"limit={1 << 63}", 400, "value out of range"),
        (f"resourceVersion={1 << 64}", 400, "value out of range"),
        (f"resourceVersion={'9' * 5000}", 400, "value out of range"),
        ("continue=x", 400, "invalid continue token: continue key is not valid"),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
    ],
)
async def test_wrong_options_are_refused(api: Client, query: str, status: int, message: str) -> None:
    refused = await api.get(f"{CONFIGMAPS}?{query}")
    assert refused.status == status
    assert message in refused.message


async def test_tables(api: Client, clock: ManualClock) -> None:
    await api.configmap("a", x="1", y="2")
    clock.advance(90)
    table = (await api.get(CONFIGMAPS, accept=TABLE)).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"] == ["a", 2, "90s"]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "data" not in row["object"]


async def test_of_a_repeated_option_the_first_counts(api: Client) -> None:
    for name in "abc":
        await api.configmap(name)
    assert names(await api.get(f"{CONFIGMAPS}?limit=1&limit=2")) == ["a"]


@pytest.mark.parametrize(("include", "kind"), [("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")])
async def test_a_row_carries_as_much_as_asked_for(api: Client, include: str, kind: str) -> None:
    await api.configmap("a")
    (row,) = (await api.get(f"{CONFIGMAPS}?includeObject={include}", accept=TABLE)).json["rows"]
    assert row["object"]["kind"] == kind
    (row,) = (await api.get(f"{CONFIGMAPS}?includeObject=None", accept=TABLE)).json["rows"]
    assert row["object"] is None


async def test_metadata_alone(api: Client) -> None:
    await api.configmap("a", k="v")
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = (await api.get(CONFIGMAPS, accept=accept)).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [sorted(item) for item in listed["items"]] == [["apiVersion", "kind", "metadata"]]


async def test_yaml_and_indented_json(api: Client) -> None:
    await api.configmap("a")
    in_yaml = await api.get(f"{CONFIGMAPS}/a", accept="application/yaml")
    assert in_yaml.content_type == "application/yaml"
    assert in_yaml.raw.startswith(b"apiVersion: v1\nkind: ConfigMap\n")
    pretty = await api.get(f"{CONFIGMAPS}/a?pretty=true")
    assert pretty.raw.startswith(b'{\n  "metadata": {')


async def test_protobuf_alone_is_not_acceptable(api: Client) -> None:
    refused = await api.get(CONFIGMAPS, accept="application/vnd.kubernetes.protobuf")
    assert (refused.status, refused.json["reason"]) == (406, "NotAcceptable")
    fallback = await api.get(CONFIGMAPS, accept="application/vnd.kubernetes.protobuf,application/json")
    assert fallback.status == 200


async def test_a_large_list_is_compressed_once(api: Client) -> None:
    for index in range(40):
        await api.configmap(f"c{index:02}", k="x" * 10_000)
    first = await api.get(CONFIGMAPS, accept_encoding="gzip")
    again = await api.get(CONFIGMAPS, accept_encoding="gzip")
    assert ("Content-Encoding", "gzip") in first.headers
    assert again.raw is first.raw
    assert gzip.decompress(first.raw) == (await api.get(CONFIGMAPS)).raw
    await api.configmap("d")
    changed: Any = await api.get(CONFIGMAPS, accept_encoding="gzip")
    assert b'"name":"d"' in gzip.decompress(changed.raw)


async def test_long_selectors_of_empty_lists_fill_no_memory(store: MemoryStore, clock: ManualClock) -> None:
    cache = ListCache(clock, max_bytes=10_000)
    answer = CachedAnswer(Response(200, b"{}"), store.revision, 30.0)
    keys = [("v1", "core/pods", f"{'x' * 1000}-{number}") for number in range(100)]
    for key in keys:
        cache.put(store, "core/pods", key, answer)
    kept = [key for key in keys if cache.get("core/pods", key)]
    assert 0 < len(kept) < 10
    assert kept[-1] is keys[-1]
