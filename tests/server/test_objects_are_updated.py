"""Update and patch: no write is lost, and a write without a change stores nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Client

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
STALE = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
    "please apply your changes to the latest version and try again"
)


async def test_an_update_replaces_the_object_and_keeps_its_identity(api: Client) -> None:
    before = (await api.configmap("a", k="v"))["metadata"]
    after = (await api.put(f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "w"}})).json
    assert after["data"] == {"k": "w"}
    assert after["metadata"]["uid"] == before["uid"]
    assert after["metadata"]["creationTimestamp"] == before["creationTimestamp"]
    assert int(after["metadata"]["resourceVersion"]) > int(before["resourceVersion"])


async def test_an_update_of_an_older_version_loses(api: Client) -> None:
    first = await api.configmap("a", k="v")
    await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "w"}})
    stale = await api.put(f"{CONFIGMAPS}/a", first)
    assert (stale.status, stale.message) == (409, STALE)
    patched = await api.patch(f"{CONFIGMAPS}/a", {"metadata": first["metadata"]})
    assert (patched.status, patched.message) == (409, STALE)


async def test_a_change_of_nothing_writes_nothing(api: Client) -> None:
    created = await api.configmap("a", k="v")
    watching = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={created['metadata']['resourceVersion']}")
    same = await api.put(f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert same.json == created
    assert (await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})).json == created
    assert watching.events == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"metadata": {"name": "b"}}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({}, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        ({"metadata": {"name": "a", "uid": "other"}}, 409, "Precondition failed: UID in precondition: other"),
    ],
)
async def test_an_update_must_be_of_the_object_in_the_url(api: Client, body: Any, status: int, message: str) -> None:
    await api.configmap("a")
    refused = await api.put(f"{CONFIGMAPS}/a", body)
    assert refused.status == status
    assert message in refused.message


async def test_an_update_creates_only_kinds_that_say_so(api: Client) -> None:
    assert (await api.put(f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}})).status == 404
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await api.put(f"{leases}/a", {"metadata": {"name": "a"}})).status == 201


async def test_identity_cannot_be_patched(api: Client) -> None:
    await api.configmap("a")
    refused = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"uid": "other"}})
    assert refused.status == 422
    assert refused.message == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("merge", {"data": {"b": "2", "a": None}}),
        ("strategic", {"data": {"b": "2", "a": None}}),
        ("json", [{"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"}]),
    ],
)
async def test_the_patch_types(api: Client, kind: str, patch: Any) -> None:
    await api.configmap("x", a="1")
    patched = await api.patch(f"{CONFIGMAPS}/x", patch, kind)
    assert patched.status == 200
    assert patched.json["data"] == {"b": "2"}


async def test_plain_text_can_be_patched_into_a_secret(api: Client) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    await api.post(secrets, {"metadata": {"name": "s"}, "data": {"a": "eA=="}})
    patched = await api.patch(f"{secrets}/s", {"stringData": {"b": "c"}})
    assert patched.json["data"] == {"a": "eA==", "b": "Yw=="}


async def test_a_patch_of_no_known_type_is_refused(api: Client) -> None:
    await api.configmap("a")
    refused = await api("PATCH", f"{CONFIGMAPS}/a", {}, content_type="text/plain")
    assert (refused.status, refused.message) == (415, "415: Unsupported Media Type")


async def test_applying_creates_then_changes_then_conflicts(api: Client) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    url = f"{CONFIGMAPS}/a?fieldManager=one"
    assert (await api.patch(url, config, "apply")).status == 201
    again = await api.patch(url, config, "apply")
    assert again.status == 200
    assert again.json["metadata"]["managedFields"][0]["operation"] == "Apply"
    other = {**config, "data": {"k": "w"}}
    refused = await api.patch(f"{CONFIGMAPS}/a?fieldManager=two", other, "apply")
    assert refused.status == 409
    assert 'conflict with "one"' in refused.message
    forced = await api.patch(f"{CONFIGMAPS}/a?fieldManager=two&force=true", other, "apply")
    assert forced.json["data"] == {"k": "w"}


async def test_only_apply_needs_a_manager_and_only_apply_can_be_forced(api: Client) -> None:
    unnamed = await api.patch(f"{CONFIGMAPS}/a", {}, "apply")
    assert "fieldManager: Required value: is required for apply patch" in unnamed.message
    forced = await api.patch(f"{CONFIGMAPS}/a?force=true", {})
    assert "force: Forbidden: may not be specified for non-apply patch" in forced.message


async def test_status_and_spec_have_doors_of_their_own(api: Client) -> None:
    nodes = "/api/v1/nodes"
    await api.post(nodes, {"metadata": {"name": "n"}})
    through_status = await api.patch(
        f"{nodes}/n/status", {"spec": {"unschedulable": True}, "status": {"nodeInfo": {"kernelVersion": "6"}}}
    )
    assert "unschedulable" not in through_status.json["spec"]
    assert through_status.json["status"]["nodeInfo"]["kernelVersion"] == "6"
    through_main = await api.patch(f"{nodes}/n", {"status": {"nodeInfo": {"kernelVersion": "7"}}})
    assert through_main.json["status"]["nodeInfo"]["kernelVersion"] == "6"


async def test_our_own_kinds_are_never_updated_blindly(api: Client) -> None:
    url = "/apis/networking.datumapis.com/v1alpha/locations"
    body: Any = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location", "metadata": {"name": "l"}}
    body["spec"] = {"locationClassName": "self-managed", "topology": {"topology.datum.net/city-code": "DFW"}}
    body["spec"]["provider"] = {"nodes": {}}
    created = await api.post(url, body)
    assert created.status == 201, created.raw
    blind = await api.put(f"{url}/l", body)
    assert (blind.status, blind.json["reason"]) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in blind.message
    assert created.json["metadata"]["generation"] == 1
    relabelled = await api.patch(f"{url}/l", {"metadata": {"labels": {"a": "b"}}})
    assert relabelled.json["metadata"]["generation"] == 1
    strategic = await api.patch(f"{url}/l", {}, "strategic")
    assert strategic.status == 415


async def test_a_deleted_object_is_not_brought_back_by_somebody_who_knew_it(api: Client) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    held = (await api.post(leases, {"metadata": {"name": "a"}})).json
    await api.delete(f"{leases}/a")
    refused = await api.put(f"{leases}/a", held)
    assert refused.status == 409
    assert "Precondition failed: UID in precondition:" in refused.message


async def test_an_object_grows_no_larger_than_every_store_takes(api: Client) -> None:
    large = {"b": "\x01" * 300_000}  # six characters each in the store
    assert (await api.post(CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"a": "x" * 700_000}})).status == 201
    grown = await api.patch(f"{CONFIGMAPS}/a", {"data": large})
    assert (grown.status, grown.json["reason"]) == (413, "RequestEntityTooLarge")
    assert grown.message.endswith("bytes, limit is 1500000")
    assert (await api.post(CONFIGMAPS, {"metadata": {"name": "b"}, "data": large})).status == 413
    assert (await api.patch(f"{CONFIGMAPS}/a", {"data": {"a": "x"}})).status == 200


async def test_labels_in_the_short_form_can_be_changed_by_client_side_apply(api: Client) -> None:
    """kubectl sends the short form alone, merged into the stored full form; the same again writes nothing."""
    url = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"
    container = {"name": "app", "image": "ghcr.io/acme/app:1"}
    runtime = {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [container]}}
    body: Any = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": "web"}}
    body["spec"] = {
        "template": {"labels": {"tier": "a"}, "spec": {"runtime": runtime, "networkInterfaces": [{"network": "lan"}]}},
        "placements": [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
    }
    created = await api.post(url, body)
    assert created.status == 201, created.raw
    patch = {"spec": {"template": {"labels": {"tier": "b"}}}}
    changed = await api.patch(f"{url}/web", patch)
    assert changed.status == 200, changed.raw
    template = changed.json["spec"]["template"]
    assert (template["metadata"], template["labels"]) == ({"labels": {"tier": "b"}}, {"tier": "b"})
    # Shorthands inside lists cannot be shown as they were written, so kubectl sends them every time.
    placements = [{**body["spec"]["placements"][0], "cityCodes": ["dfw"]}]
    lists = {"placements": placements, "template": {"spec": {"networkInterfaces": [{"network": "lan"}]}}}
    for same in (patch, {"spec": lists}):
        again = await api.patch(f"{url}/web", same)
        assert again.json["metadata"]["resourceVersion"] == changed.json["metadata"]["resourceVersion"]
