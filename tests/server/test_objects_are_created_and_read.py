"""Create and get: fields that the system sets, invalid objects, and stored ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Client

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_created_object_is_stamped_and_can_be_read_back(api: Client) -> None:
    created = await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}})
    assert created.status == 201
    obj = created.json
    assert obj["kind"] == "ConfigMap"
    assert obj["apiVersion"] == "v1"
    assert obj["metadata"]["namespace"] == "default"
    assert obj["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert len(obj["metadata"]["uid"]) == 36
    assert int(obj["metadata"]["resourceVersion"]) > 1
    assert "generation" not in obj["metadata"]
    assert (await api.get(f"{CONFIGMAPS}/a")).json == obj


async def test_system_fields_sent_by_a_client_are_ignored(api: Client) -> None:
    metadata = {"name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    metadata |= {"deletionTimestamp": "2001-01-01T00:00:00Z"}
    created = (await api.post(CONFIGMAPS, {"metadata": metadata})).json["metadata"]
    assert created["uid"] != "mine"
    assert created["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert not {"selfLink", "deletionTimestamp"} & created.keys()


async def test_the_program_that_creates_an_object_manages_its_fields(api: Client) -> None:
    (entry,) = (await api.configmap("a", k="v"))["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tests", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}


async def test_a_generated_name_ends_with_five_random_letters(api: Client) -> None:
    first = (await api.post(CONFIGMAPS, {"metadata": {"generateName": "job-"}})).json["metadata"]["name"]
    second = (await api.post(CONFIGMAPS, {"metadata": {"generateName": "job-"}})).json["metadata"]["name"]
    assert first.startswith("job-")
    assert len(first) == len("job-") + 5
    assert first != second


async def test_a_generated_name_is_cut_to_fit_a_label(api: Client) -> None:
    created = await api.post(CONFIGMAPS, {"metadata": {"generateName": "a" * 100}})
    assert len(created.json["metadata"]["name"]) == 63


async def test_a_taken_name_is_a_conflict(api: Client) -> None:
    await api.configmap("a")
    again = await api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
    assert again.status == 409
    assert again.json["reason"] == "AlreadyExists"
    assert again.message == 'configmaps "a" already exists'


async def test_a_dry_run_answers_and_writes_nothing(api: Client) -> None:
    tried = await api.post(f"{CONFIGMAPS}?dryRun=All", {"metadata": {"name": "a"}})
    assert tried.status == 201
    assert tried.json["metadata"]["uid"]
    assert "resourceVersion" not in tried.json["metadata"]
    assert (await api.get(f"{CONFIGMAPS}/a")).status == 404


async def test_generations_count_for_kinds_with_a_spec(api: Client) -> None:
    spec: Any = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    await api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    created = await api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, **spec})
    assert created.json["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("metadata", "status", "message"),
    [
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match the namespace sent on"),
        ({"resourceVersion": "7"}, 500, "resourceVersion should not be set on objects to be created"),
        ({"name": ""}, 422, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 422, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ({"labels": {"a b": ""}}, 422, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        ({"annotations": {"a": "x" * (256 << 10)}}, 422, "metadata.annotations: Too long: may not be more than 262144"),
        ({"finalizers": ["mine"]}, 422, "name is neither a standard finalizer name nor is it fully qualified"),
        ({"ownerReferences": [{"kind": "A", "name": "a", "uid": "1"}]}, 422, "version must not be empty"),
    ],
)
async def test_wrong_metadata_is_refused(api: Client, metadata: Any, status: int, message: str) -> None:
    refused = await api.post(CONFIGMAPS, {"metadata": {"name": "a", **metadata}})
    assert refused.status == status
    assert message in refused.message


async def test_every_mistake_is_told_at_once(api: Client) -> None:
    refused = await api.post(CONFIGMAPS, {"metadata": {"name": "A", "labels": {"a b": ""}}, "data": {"c d": ""}})
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [
        "metadata.name",
        "metadata.labels",
        "data[c d]",
    ]


async def test_unknown_fields_are_a_warning_a_refusal_or_nothing(api: Client) -> None:
    body = {"metadata": {"name": "a"}, "colour": "red"}
    warned = await api.post(f"{CONFIGMAPS}?dryRun=All", body)
    assert (warned.status, warned.warnings) == (201, ['299 - "unknown field \\"colour\\""'])
    refused = await api.post(f"{CONFIGMAPS}?dryRun=All&fieldValidation=Strict", body)
    assert refused.status == 400
    assert 'strict decoding error: unknown field "colour"' in refused.message
    ignored = await api.post(f"{CONFIGMAPS}?dryRun=All&fieldValidation=Ignore", body)
    assert (ignored.status, ignored.warnings) == (201, [])


async def test_the_text_data_of_a_secret_is_stored_encoded(api: Client) -> None:
    created = await api.post(
        "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    )
    assert created.json["data"] == {"a": "Yg=="}
    assert "stringData" not in created.json


async def test_an_object_that_is_wrong_all_over_gets_no_endless_answer(api: Client) -> None:
    labels = {f"bad key {number}": "fine" for number in range(900)}
    refused = await api.post(CONFIGMAPS, {"metadata": {"name": "a", "labels": labels}})
    assert refused.status == 422
    assert len(refused.json["details"]["causes"]) == 200
    assert refused.message.endswith(", and more]")


async def test_causes_that_quote_long_values_do_not_add_up(api: Client) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x" * 200, "uid": "u", "controller": True}
    refused = await api.post(CONFIGMAPS, {"metadata": {"name": "a", "ownerReferences": [owner] * 2000}})
    assert refused.status == 422
    assert len(refused.raw) < 4 * 1024 * 1024
