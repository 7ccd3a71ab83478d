"""A bootstrap token joins one new node where it may be, and nothing else; a node stays where it was put."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tarmac.api.networking.cities import location_of
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NODES
from tests.security.wire import (
    CLIENT,
    KEY,
    KUBELET_SERVING,
    Json,
    Wire,
    csr,
    pair_of,
    serving,
    signing_request,
)

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LOCATIONS = dynamic("networking.datumapis.com/v1alpha", "locations", "Location", namespaced=False)
LOCATION = "topology.datum.net/location"
ADMINISTRATORS = [
    LOCATION,
    "topology.datum.net/city-code",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "submariner.io/gateway",
    "node-restriction.kubernetes.io/tenant",
]


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


async def asked(wire: Wire, token: str, node: str, name: str, key: ec.EllipticCurvePrivateKey = KEY) -> Json:
    """Return the status of a decided request for a node's certificate."""
    pem = csr(f"system:node:{node}", "system:nodes", key=key)
    answer = await wire.attacker(token=token).post(REQUESTS, signing_request(pem, name=name))
    assert answer.status == 201, answer
    return await wire.decided(name)


def outcome(status: Json) -> tuple[str, str]:
    [condition] = status["conditions"]
    return condition["type"], condition["reason"]


async def test_a_living_nodes_name_cannot_be_taken_over(wire: Wire) -> None:
    await wire.admin.resource(NODES).create({"metadata": {"name": "victim"}})
    status = await asked(wire, await wire.token(), "victim", "theft")
    assert outcome(status) == ("Denied", "NodeNameTaken")
    assert "kubectl delete node victim" in status["conditions"][0]["message"]
    assert "certificate" not in status


async def test_a_name_is_taken_the_moment_it_is_given(wire: Wire) -> None:
    """The holder of another token cannot take the name between a node's approval and its registration."""
    first, second = await wire.token("aaaaaa"), await wire.token("bbbbbb")
    assert outcome(await asked(wire, first, "new", "first")) == ("Approved", "AutoApproved")
    assert outcome(await asked(wire, second, "new", "second")) == ("Denied", "NodeNameTaken")
    again = await asked(wire, first, "new", "again")  # killed before its certificate was on disk
    assert outcome(again) == ("Approved", "AutoApproved")
    node = wire.attacker(pair_of(again))
    reported = {"status": {"nodeInfo": {"machineID": "m", "bootID": "b"}}}
    assert (await node.patch("/api/v1/nodes/new/status", reported)).status == 200
    assert outcome(await asked(wire, first, "new", "late")) == ("Denied", "NodeNameTaken")


async def test_a_node_renews_its_own_certificate_all_the_same(wire: Wire) -> None:
    await wire.admin.resource(NODES).create({"metadata": {"name": "n1"}})
    answer = await wire.node("n1").post(REQUESTS, signing_request(csr("system:node:n1", "system:nodes")))
    assert answer.status == 201
    assert outcome(await wire.decided("wanted")) == ("Approved", "AutoApproved")


@pytest.mark.parametrize("node", ["Not_A_Name", "a/../b", "*"])
async def test_a_name_that_is_none_gets_no_certificate(wire: Wire, node: str) -> None:
    assert outcome(await asked(wire, await wire.token(), node, "odd")) == ("Denied", "InvalidNode")


async def test_a_bootstrap_token_asks_for_nothing_but_nodes_client_certificates(wire: Wire) -> None:
    joiner = wire.attacker(token=await wire.token())
    for signer in (CLIENT, KUBELET_SERVING, "example.com/anything"):
        answer = await joiner.post(REQUESTS, signing_request(csr("admin"), signer))
        assert answer.status == 403, signer
        assert "a bootstrap token may ask for certificates of" in answer.message
    answer = await joiner.post(REQUESTS, signing_request(csr("admin", "system:nodes"), name="person"))
    assert answer.status == 201
    assert await wire.undecided("person")


async def test_a_token_says_where_its_node_is(wire: Wire) -> None:
    await wire.admin.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
    placed = await wire.token("aaaaaa", **{"tarmac-location": "dfw"})
    status = await asked(wire, placed, "dfw-7", "placed")
    labels = (await wire.admin.resource(NODES).get("dfw-7"))["metadata"]["labels"]
    assert (labels[LOCATION], labels["topology.kubernetes.io/zone"]) == ("dfw", "dfw")
    node = wire.attacker(pair_of(status))
    answer = await node.patch("/api/v1/nodes/dfw-7", {"metadata": {"labels": {LOCATION: "lhr"}}})
    assert answer.status == 403
    assert "for an administrator or the location of its token" in answer.message
    gone = await wire.token("bbbbbb", **{"tarmac-location": "atlantis"})
    assert outcome(await asked(wire, gone, "x", "gone")) == ("Denied", "LocationGone")


@pytest.mark.parametrize("label", ADMINISTRATORS)
async def test_a_node_cannot_say_where_it_is(wire: Wire, label: str) -> None:
    """The node may set it neither at registration, nor later, nor by its status, and not remove an administrator's."""
    node = wire.node("n1")
    body: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {label: "x"}}}
    assert (await node.post("/api/v1/nodes", body)).status == 403
    del body["metadata"]["labels"]
    assert (await node.post("/api/v1/nodes", body)).status == 201
    for door in ("", "/status"):
        answer = await node.patch(f"/api/v1/nodes/n1{door}", {"metadata": {"labels": {label: "x"}}})
        assert (answer.status, label in answer.message) == (403, True)
    await wire.admin.resource(NODES).patch("n1", {"metadata": {"labels": {label: "here"}}})
    for value in (None, "there"):
        assert (await node.patch("/api/v1/nodes/n1", {"metadata": {"labels": {label: value}}})).status == 403
    assert (await node.patch("/api/v1/nodes/n1", {"metadata": {"labels": {label: "here", "a": "b"}}})).status == 200


async def test_a_node_that_was_made_for_a_token_may_add_its_own_taints_until_it_reports(wire: Wire) -> None:
    node = wire.attacker(pair_of(await asked(wire, await wire.token(), "new", "new")))
    known = (await wire.admin.resource(NODES).get("new"))["spec"]["taints"]
    own = {"key": "example.com/gpu", "effect": "NoSchedule"}
    assert (await node.patch("/api/v1/nodes/new", {"spec": {"taints": [own]}})).status == 403
    assert (await node.patch("/api/v1/nodes/new", {"spec": {"taints": [*known, own]}})).status == 200
    assert (await node.patch("/api/v1/nodes/new/status", {"status": {"nodeInfo": {"machineID": "m"}}})).status == 200
    assert (await node.patch("/api/v1/nodes/new", {"spec": {"taints": [*known, own, own]}})).status == 403
