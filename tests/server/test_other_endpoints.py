"""Paths, errors and failures: every request gets a sensible response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tarmac.base.clock import ManualClock
from tarmac.server.endpoints.documents import commit, commit_of
from tarmac.store.interface import Unavailable
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, OpenGates
from tests.support.exposition import series

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/unicorns", 404),
        ("GET", f"{CONFIGMAPS}/a/status", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/status/more", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/log/more", 404),
        ("HEAD", "/api/v1/watch/namespaces/default/configmaps", 404),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps", 404),
        ("PUT", "/api/v1/namespaces/default/pods/p/exec", 405),
        ("DELETE", "/api/v1/namespaces/default/pods/p/attach", 405),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("PUT", CONFIGMAPS, 405),
        ("POST", f"{CONFIGMAPS}/a", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("POST", "/version", 405),
    ],
)
async def test_missing_objects_and_unsupported_methods_return_a_status(
    api: Client, method: str, path: str, status: int
) -> None:
    reply = await api(method, path, {})
    assert reply.status == status
    assert reply.json["kind"] == "Status"
    assert reply.json["details"] == {}


@pytest.mark.parametrize("path", [f"/{CONFIGMAPS}", "/api/v1/namespaces/default//configmaps", f"{CONFIGMAPS}//a"])
async def test_slashes_are_not_made_up_for(api: Client, path: str) -> None:
    await api.configmap("a")
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize("path", ["/nowhere", "/apis/nobody/v1/things", "/apis/nobody", "/livez/nothing"])
async def test_unknown_paths_return_404_page_not_found(api: Client, path: str) -> None:
    reply = await api.get(path)
    assert (reply.status, reply.raw) == (404, b"404 page not found\n")


async def test_discovery(api: Client) -> None:
    assert (await api.get("/api")).json["versions"] == ["v1"]
    groups = [group["name"] for group in (await api.get("/apis")).json["groups"]]
    assert {"policy", "compute.datumapis.com"} <= set(groups)
    assert (await api.get("/apis/policy")).json["preferredVersion"]["version"] == "v1"
    names = [resource["name"] for resource in (await api.get("/api/v1")).json["resources"]]
    assert {"pods", "pods/log", "configmaps"} <= set(names)


async def test_the_list_of_custom_resource_definitions_is_empty(api: Client) -> None:
    found = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=500")
    assert (found.json["kind"], found.json["items"]) == ("CustomResourceDefinitionList", [])
    assert (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {})).status == 404


async def test_a_deprecated_kind_says_so_whatever_is_asked(api: Client) -> None:
    endpoints = "/api/v1/namespaces/default/endpoints"
    warning = ("Warning", '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"')
    replies = [
        await api.post(endpoints, {"metadata": {"name": "e"}}),
        await api.get(f"{endpoints}/e"),
        await api.get(f"{endpoints}?labelSelector=none"),
        await api.get(f"{endpoints}?labelSelector=none"),  # the same response again, from the cache
        await api.patch(f"{endpoints}/e", {"metadata": {"labels": {"a": "b"}}}),
        await api.delete(f"{endpoints}/e"),
    ]
    assert [[header for header in reply.headers if header[0] == "Warning"] for reply in replies] == [[warning]] * 6


async def test_warnings_do_not_fill_endless_headers(api: Client) -> None:
    fields = {f"unknown-{number}-{'x' * 500}": 1 for number in range(90)}
    reply = await api.post(CONFIGMAPS, {"metadata": {"name": "a"}, **fields})
    warnings = [value for name, value in reply.headers if name == "Warning"]
    assert len(warnings) > 10
    assert sum(map(len, warnings)) < 6000


async def test_aggregated_discovery_is_for_those_who_ask_and_is_cached_by_tag(api: Client) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    full = await api.get("/apis", accept=accept)
    assert full.json["kind"] == "APIGroupDiscoveryList"
    tag = dict(full.headers)["ETag"]
    assert (await api.get("/apis", accept=accept, if_none_match=tag)).status == 304


async def test_openapi_is_addressed_by_hash(api: Client) -> None:
    index = (await api.get("/openapi/v3")).json["paths"]
    url = index["apis/policy/v1"]["serverRelativeURL"]
    found = await api.get(url)
    assert "PodDisruptionBudget" in found.raw.decode()
    assert (await api.get(url, if_none_match=dict(found.headers)["ETag"])).status == 304
    moved = await api.get("/openapi/v3/apis/policy/v1?hash=old")
    assert (moved.status, dict(moved.headers)["Location"]) == (301, url)
    assert (await api.get("/openapi/v3/apis/nobody/v1")).status == 404


async def test_the_version_is_one_that_tools_understand(api: Client) -> None:
    version = (await api.get("/version")).json
    assert (version["major"], version["minor"]) == ("1", "35")
    assert version["gitVersion"].startswith("v1.35.")
    assert version["gitCommit"] == commit()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"src/tarmac/COMMIT": "a1\n", ".git/HEAD": "b2\n"}, "a1"),
        ({".git/HEAD": "b2\n"}, "b2"),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": "c3\n"}, "c3"),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": "# pack\nd4 refs/heads/main\n"}, "d4"),
        ({".git/HEAD": "ref: refs/heads/main\n"}, ""),
        ({}, ""),
    ],
)
def test_the_commit_is_that_of_the_package_or_of_the_checkout(
    tmp_path: Path, files: dict[str, str], found: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert commit_of(tmp_path / "src/tarmac") == found


async def test_health_says_ok_or_lists_its_checks(api: Client) -> None:
    assert (await api.get("/livez")).raw == b"ok"
    assert (await api.get("/readyz?verbose")).raw == b"[+]ping ok\nreadyz check passed\n"
    assert (await api.get("/livez/ping")).raw == b"ok"


async def test_the_root_lists_what_there_is(api: Client) -> None:
    paths = (await api.get("/")).json["paths"]
    assert {"/api/v1", "/apis/policy/v1", "/livez/ping", "/metrics", "/openapi/v2", "/version"} <= set(paths)


async def test_metrics_count_requests_by_verb_resource_and_code(api: Client) -> None:
    await api.configmap("a")
    await api.get(f"{CONFIGMAPS}/a")
    await api.get(f"{CONFIGMAPS}/b")
    text = (await api.get("/metrics")).raw.decode()
    labels = (
        'component="apiserver",dry_run="",group="",resource="configmaps",scope="resource",subresource="",verb="GET"'
    )
    assert f'apiserver_request_total{{code="200",{labels},version="v1"}} 1\n' in text
    assert f'apiserver_request_total{{code="404",{labels},version="v1"}} 1\n' in text
    assert f'apiserver_request_duration_seconds_count{{{labels},version="v1"}} 2\n' in text
    assert 'apiserver_storage_objects{resource="configmaps"} 1\n' in text
    assert "process_resident_memory_bytes " in text


async def test_requests_for_unknown_resources_add_no_metric_series(api: Client) -> None:
    before = (await api.get("/metrics")).raw.count(b"\n")
    for number in range(20):
        await api.get(f"/apis/group-{number}.example/v1/things")
        await api.get(f"/api/v1/namespaces/default/pods/p/unheard-{number}")
        await api.get(f"/nowhere-{number}")
    text = (await api.get("/metrics")).raw.decode()
    assert 'apiserver_request_total{code="404",component="apiserver"' in text
    assert not [line for line in text.splitlines() if "example" in line or "nowhere" in line or "unheard" in line]
    assert text.count("\n") - before < 60


async def test_watches_are_counted_while_they_last(api: Client) -> None:
    watching = await api.watch(f"{CONFIGMAPS}?watch=1")
    line = 'scope="namespace",subresource="",verb="WATCH",version="v1"}'
    assert f"{line} 1\n" in (await api.get("/metrics")).raw.decode()
    watching.close()
    assert f"{line} 0\n" in (await api.get("/metrics")).raw.decode()


async def test_a_refusal_is_forbidden_and_recorded(api: Client, gates: OpenGates) -> None:
    gates.refused.add("get")
    refused = await api.get(f"{CONFIGMAPS}/a")
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert 'User "admin" cannot get resource "configmaps" in API group "" in the namespace "default"' in refused.message
    info, code = gates.recorded[-1]
    assert (info.verb, info.name, code) == ("get", "a", 403)


async def test_opening_a_connection_is_authorized_as_a_create(api: Client, gates: OpenGates) -> None:
    gates.refused.add("create")
    assert (await api.get("/api/v1/namespaces/default/pods/p/exec")).status == 403


async def test_a_surprise_is_an_internal_error_and_not_the_end(
    api: Client, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(bucket: str, name: str) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(store, "get", broken)
    failed = await api.get(f"{CONFIGMAPS}/a")
    assert (failed.status, failed.json["reason"]) == (500, "InternalError")
    assert "out of cheese" in capsys.readouterr().err
    monkeypatch.undo()
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404


async def test_a_store_that_is_away_is_a_service_unavailable(
    api: Client, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(bucket: str, name: str, value: bytes, *, guards: Sequence[str]) -> None:
        raise Unavailable("disk on fire")

    monkeypatch.setattr(store, "create", away)
    failed = await api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
    assert (failed.status, failed.json["reason"]) == (503, "ServiceUnavailable")


async def test_events_are_the_same_in_both_their_groups(api: Client) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}
    event |= {"reason": "Started", "message": "it runs", "type": "Normal"}
    assert (await api.post(EVENTS, event)).status == 201
    shown = (await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json
    assert (shown["apiVersion"], shown["note"], shown["regarding"]["name"]) == ("events.k8s.io/v1", "it runs", "p")
    newer = {"metadata": {"name": "f"}, "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}}
    newer |= {"eventTime": "2027-01-15T08:00:00.000000Z", "reason": "Stopped", "note": "it ran", "type": "Normal"}
    newer |= {"action": "Stop", "reportingController": "example.com/c", "reportingInstance": "c-1"}
    created = await api.post("/apis/events.k8s.io/v1/namespaces/default/events", newer)
    assert created.status == 201, created.raw
    stored = (await api.get(f"{EVENTS}/f")).json
    assert (stored["apiVersion"], stored["message"], stored["reportingComponent"]) == ("v1", "it ran", "example.com/c")
    assert stored["involvedObject"]["name"] == "p"


async def test_events_are_forgotten_an_hour_after_their_last_write(api: Client, clock: ManualClock) -> None:
    event = {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "type": "Normal"}
    for name in ("once", "again"):
        await api.post(EVENTS, {"metadata": {"name": name}, **event, "count": 1})
    clock.advance(1800)
    assert (await api.patch(f"{EVENTS}/again", {"count": 2})).status == 200
    clock.advance(1830)
    for _ in range(20):
        await asyncio.sleep(0)
    assert [item["metadata"]["name"] for item in (await api.get(EVENTS)).json["items"]] == ["again"]


async def test_a_health_check_that_is_left_out_is_said_to_be(api: Client) -> None:
    lines = (await api.get("/readyz?verbose&exclude=ping")).raw.decode().splitlines()
    assert "[+]ping excluded: ok" in lines
    assert "[+]ping ok" not in lines
    unknown = (await api.get("/readyz?verbose&exclude=nothing")).raw.decode().splitlines()
    assert 'warn: some health checks cannot be excluded: no matches for "nothing"' in unknown
    assert (await api.get("/readyz?exclude=ping")).raw == b"ok"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("path", [CONFIGMAPS, f"{CONFIGMAPS}/a"])
async def test_a_table_comes_in_the_version_that_was_asked_for(api: Client, path: str, version: str) -> None:
    await api.configmap("a")
    reply = await api.get(path, accept=f"application/json;as=Table;v={version};g=meta.k8s.io")
    assert (reply.json["kind"], reply.json["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")


async def test_metrics_tell_each_series_once(api: Client) -> None:
    """The rule also holds where two kinds of requests have the same labels."""
    await api.configmap("a")
    for url in (CONFIGMAPS, "/api/v1/configmaps"):
        assert (await api.get(f"{url}?fieldSelector=metadata.name%3Da")).status == 200
    assert series((await api.get("/metrics")).raw.decode())
