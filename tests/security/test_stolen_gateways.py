"""A stolen gateway's certificate against the statuses of Gateways: epochs, owners and long names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.api.egress.names import NAMESPACE
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NODES
from tests.security.wire import Answer, Json, Wire, serving

GATEWAYS = dynamic("submariner.io/v1alpha1", "gateways", "Gateway")
NAME = "192.0.2.7"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        for name in ("gw-0", "gw-1", "voter"):
            await running.admin.resource(NODES).create({"metadata": {"name": name}})
        spec = {"gatewayip": NAME, "candidates": [{"name": "gw-0"}, {"name": "gw-1"}], "voters": [{"name": "voter"}]}
        body: Json = {"apiVersion": GATEWAYS.api_version, "kind": "Gateway", "spec": spec}
        # Controllers delete a Gateway without a SourceIP; the finalizer keeps this one.
        body["metadata"] = {"name": NAME, "namespace": NAMESPACE, "finalizers": ["test.example/keep"]}
        await running.admin.resource(GATEWAYS).create(body)
        yield running


async def say(wire: Wire, node: str, *entries: Json) -> Answer:
    target = f"/apis/{GATEWAYS.api_version}/namespaces/{NAMESPACE}/gateways/{NAME}/status"
    return await wire.node(node).patch(target, {"status": {"nodes": list(entries)}})


async def test_a_stolen_candidate_leaves_epochs_for_the_others(wire: Wire) -> None:
    honest = {"name": "gw-1", "owner": True, "epoch": 7}
    assert (await say(wire, "gw-1", honest)).status == 200
    for epoch in (2**62, 2**63 - 1, 2**53, 10**12):
        answer = await say(wire, "gw-0", honest, {"name": "gw-0", "owner": True, "epoch": epoch})
        assert (answer.status, "status.nodes[gw-0].epoch" in answer.message) == (403, True), answer
    twice = await say(wire, "gw-0", honest, {"name": "gw-0", "epoch": 8}, {"name": "gw-0", "epoch": 2**62})
    assert twice.status in (403, 422), twice
    assert (await say(wire, "gw-0", honest, {"name": "gw-0", "owner": True, "epoch": 8})).status == 200


async def test_a_stolen_voter_is_no_owner(wire: Wire) -> None:
    answer = await say(wire, "voter", {"name": "voter", "owner": True, "epoch": 9})
    assert (answer.status, "spec.candidates" in answer.message) == (403, True), answer
    assert (await say(wire, "voter", {"name": "voter", "appliedGeneration": 1})).status == 200


@pytest.mark.parametrize("field", ["formerOwner", "syncedWith"])
async def test_names_of_nodes_are_no_longer_than_names(wire: Wire, field: str) -> None:
    answer = await say(wire, "gw-0", {"name": "gw-0", field: "x" * 300})
    assert (answer.status, field in answer.message) == (422, True), answer
