"""TunnelEndpoints: an allowed subset of Nodes, updated only when it changes."""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL, NodeTunnel, write_tunnel
from tests.server.conftest import Client

NODES = "/api/v1/nodes"
ENDPOINTS = "/apis/networking.datumapis.com/v1alpha/tunnelendpoints"
STATUS = {
    "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "dfw-0"}],
    "conditions": [{"type": "Ready", "status": "True"}],
}


async def create(api: Client, name: str = "dfw-0") -> Any:
    metadata = {
        "name": name,
        "labels": {LABEL_LOCATION: "dfw", "secret": "canary"},
        "annotations": {ANNOTATION_TUNNEL: write_tunnel(NodeTunnel(True, "kernel", "key")), "note": "canary"},
    }
    made = await api.post(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    assert made.status == 201, made.raw
    answer = await api.patch(f"{NODES}/{name}/status", {"status": STATUS})
    assert answer.status == 200, answer.raw
    return answer.json["metadata"]


async def test_an_endpoint_has_the_fields_it_promises_and_no_other(api: Client) -> None:
    made = await create(api)
    answer = await api.get(f"{ENDPOINTS}/dfw-0")
    assert answer.json == {
        "kind": "TunnelEndpoint",
        "apiVersion": "networking.datumapis.com/v1alpha",
        "metadata": {"name": "dfw-0", "uid": made["uid"], "resourceVersion": made["resourceVersion"]},
        "addresses": ["192.0.2.7"],
        "location": "dfw",
        "ready": True,
        "probes": True,
        "encryption": "kernel",
        "publicKey": "key",
    }
    assert b"canary" not in (await api.get(ENDPOINTS)).raw


async def test_it_cannot_be_written(api: Client) -> None:
    await create(api)
    assert (await api.patch(f"{ENDPOINTS}/dfw-0", {"addresses": ["192.0.2.8"]})).status == 405
    assert (await api.delete(f"{ENDPOINTS}/dfw-0", {})).status == 405


async def test_a_watcher_hears_only_of_what_is_shown(api: Client) -> None:
    await create(api)
    version = (await api.get(ENDPOINTS)).json["metadata"]["resourceVersion"]
    watching = await api.watch(f"{ENDPOINTS}?watch=true&resourceVersion={version}")
    await api.patch(f"{NODES}/dfw-0/status", {"status": {"capacity": {"cpu": "4"}}})
    await api.patch(f"{NODES}/dfw-0", {"metadata": {"annotations": {"note": "other"}}})
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await api.patch(f"{NODES}/dfw-0/status", unready)
    ((kind, shown),) = watching.events
    assert (kind, shown.get("ready", False)) == ("MODIFIED", False)


async def test_text_that_no_agent_writes_says_nothing(api: Client) -> None:
    await create(api)
    for text in ("[]", "{", '{"probes": 3}', "x" * 5000):
        await api.patch(f"{NODES}/dfw-0", {"metadata": {"annotations": {ANNOTATION_TUNNEL: text}}})
        assert "probes" not in (await api.get(f"{ENDPOINTS}/dfw-0")).json
