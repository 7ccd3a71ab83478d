"""Create and get."""

from __future__ import annotations

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
