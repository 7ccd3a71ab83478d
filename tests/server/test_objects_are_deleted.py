"""Delete: at once, after a grace period, or when the last finalizer is removed."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.base.clock import ManualClock
from tests.server.conftest import Client

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD: Any = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_a_deleted_object_is_gone_and_the_answer_says_which_it_was(api: Client) -> None:
    created = await api.configmap("a")
    deleted = await api.delete(f"{CONFIGMAPS}/a")
    assert deleted.status == 200
    assert deleted.json["status"] == "Success"
    assert deleted.json["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404
    assert (await api.delete(f"{CONFIGMAPS}/a")).message == 'configmaps "a" not found'


async def test_a_finalizer_keeps_the_object_until_it_is_removed(api: Client) -> None:
    await api.post(CONFIGMAPS, {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    marked = (await api.delete(f"{CONFIGMAPS}/a")).json["metadata"]
    assert marked["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert marked["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 200
    another = await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert "no new finalizers can be added if the object is being deleted" in another.message
    assert (await api.patch(f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)]
)
async def test_a_propagation_policy_is_a_finalizer(api: Client, policy: str, finalizers: list[str] | None) -> None:
    await api.configmap("a")
    await api.delete(f"{CONFIGMAPS}/a", {"propagationPolicy": policy})
    found = await api.get(f"{CONFIGMAPS}/a")
    assert (found.json["metadata"].get("finalizers") if found.status == 200 else None) == finalizers


@pytest.mark.parametrize(
    ("preconditions", "message"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ],
)
async def test_preconditions_protect_another_object(api: Client, preconditions: Any, message: str) -> None:
    await api.configmap("a")
    refused = await api.delete(f"{CONFIGMAPS}/a", {"preconditions": preconditions})
    assert refused.status == 409
    assert message in refused.message
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 200


async def test_a_dry_run_deletes_nothing(api: Client) -> None:
    await api.configmap("a")
    assert (await api.delete(f"{CONFIGMAPS}/a?dryRun=All")).status == 200
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 200


async def test_a_pod_on_a_node_ends_when_its_node_says_so(api: Client, clock: ManualClock) -> None:
    await api.post(PODS, POD)
    await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    marked = (await api.delete(f"{PODS}/p")).json["metadata"]
    assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2027-01-15T08:00:30Z", 30)
    clock.advance(5)
    longer = (await api.delete(f"{PODS}/p?gracePeriodSeconds=60")).json["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 30
    shorter = (await api.delete(f"{PODS}/p?gracePeriodSeconds=10")).json["metadata"]
    assert (shorter["deletionTimestamp"], shorter["deletionGracePeriodSeconds"]) == ("2027-01-15T08:00:10Z", 10)
    assert (await api.delete(f"{PODS}/p?gracePeriodSeconds=0")).json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{PODS}/p")).status == 404


async def test_a_pod_without_a_node_ends_at_once(api: Client) -> None:
    await api.post(PODS, POD)
    assert (await api.delete(f"{PODS}/p")).json["kind"] == "Pod"
    assert (await api.get(f"{PODS}/p")).status == 404


async def test_a_collection_is_deleted_by_selector(api: Client) -> None:
    for name, tier in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(CONFIGMAPS, {"metadata": {"name": name, "labels": {"tier": tier}}})
    deleted = await api.delete(f"{CONFIGMAPS}?labelSelector=tier%3Dx")
    assert [item["metadata"]["name"] for item in deleted.json["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await api.get(CONFIGMAPS)).json["items"]] == ["b"]


async def test_a_collection_is_deleted_no_further_than_its_limit_and_from_where_the_last_one_ended(api: Client) -> None:
    for name in "abcd":
        await api.configmap(name)
    first = (await api.delete(f"{CONFIGMAPS}?limit=2")).json
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 2
    rest = (await api.delete(f"{CONFIGMAPS}?limit=1&continue={first['metadata']['continue']}")).json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert [item["metadata"]["name"] for item in (await api.get(CONFIGMAPS)).json["items"]] == ["d"]


async def test_preconditions_protect_the_members_of_a_collection(api: Client) -> None:
    await api.configmap("a")
    refused = await api.delete(CONFIGMAPS, {"preconditions": {"uid": "other"}})
    assert refused.status == 409
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 200


async def test_nobody_deletes_the_collections_of_all_namespaces_at_once(api: Client) -> None:
    await api.configmap("a")
    assert (await api.delete("/api/v1/configmaps")).status == 405
    assert (await api.delete("/apis/compute.datumapis.com/v1alpha/workloads")).status == 405
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 200


async def test_a_namespace_ends_in_two_steps(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    terminating = (await api.delete("/api/v1/namespaces/n")).json
    assert terminating["status"]["phase"] == "Terminating"
    late = await api.post("/api/v1/namespaces/n/configmaps", {"metadata": {"name": "late"}})
    assert late.status == 403
    assert late.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    body = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    assert (await api.put("/api/v1/namespaces/n/finalize", body)).status == 200
    assert (await api.get("/api/v1/namespaces/n")).status == 404


async def test_a_namespace_without_finalizers_terminates_before_it_goes(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.post("/api/v1/namespaces/n/configmaps", {"metadata": {"name": "inside"}})
    body = {"metadata": {"name": "n"}, "spec": {"finalizers": []}}
    assert (await api.put("/api/v1/namespaces/n/finalize", body)).json["status"]["phase"] == "Active"
    assert (await api.delete("/api/v1/namespaces/n")).json["status"]["phase"] == "Terminating"
    assert (await api.get("/api/v1/namespaces/n")).status == 200
    assert (await api.delete("/api/v1/namespaces/n")).status == 200
    assert (await api.get("/api/v1/namespaces/n")).status == 404


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("propagationPolicy=Later", 'propagationPolicy: Unsupported value: "Later": supported values: "Foreground"'),
        (
            "propagationPolicy=Orphan&orphanDependents=true",
            "orphanDependents and deletionPropagation cannot be both set",
        ),
        ("dryRun=Some", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
    ],
)
async def test_contradictory_options_are_refused(api: Client, query: str, message: str) -> None:
    await api.configmap("a")
    refused = await api.delete(f"{CONFIGMAPS}/a?{query}")
    assert refused.status == 422
    assert message in refused.message
