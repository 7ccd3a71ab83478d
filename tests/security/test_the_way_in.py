"""A stolen gateway, a stolen other node and a tenant against the kinds of connections from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.egress.names import ANNOTATION_NODE_FACTS
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARED, API_VERSION
from tarmac.base.gates import WAY_IN
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, NODES, SERVICES
from tarmac.server.admission.nodes import nodeingress
from tests.attacking import TWICE
from tests.security.tenants import tenant
from tests.security.wire import Json, Wire, serving

POOLS = dynamic(API_VERSION, "addresspools", "AddressPool", namespaced=False)
ADDRESSES = dynamic(API_VERSION, "publicaddresses", "PublicAddress", namespaced=False)
PEERS = dynamic(API_VERSION, "bgppeers", "BGPPeer", namespaced=False)
ROOT = f"/apis/{API_VERSION}"
ADDRESS, PEER, POOL = f"{ROOT}/publicaddresses/203.0.113.5", f"{ROOT}/bgppeers/tor", f"{ROOT}/addresspools/public"
GATEWAY = {"submariner.io/gateway": "true", "topology.datum.net/location": "dfw"}
OTHER: Json = {"name": "n2", "location": "dfw", "announcing": True, "via": "eth1"}
MINE: Json = {"name": "n1", "location": "dfw", "announcing": True}
EVIL = {"name": "n1", "address": "1.2.3.4", "publicKey": "A" * 43 + "="}
ALL = '{"interfaces":[{"name":"e","addresses":[' + ",".join(f'"203.0.113.{n}/28"' for n in range(1, 15)) + "]}]}"
FACTS = {ANNOTATION_NODE_FACTS: ALL}
ESTABLISHED: Json = {"name": "n2", "state": "Established"}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path, WAY_IN) as running:
        for name, labels in (("n1", GATEWAY), ("n2", GATEWAY), ("n3", {"topology.datum.net/location": "dfw"})):
            await running.admin.resource(NODES).create({"metadata": {"name": name, "labels": labels}})
        await running.admin.resource(NAMESPACES).create({"metadata": {"name": "bank"}})
        spec: Json = {
            "ranges": [{"cidr": "203.0.113.0/28"}],
            "allowedNamespaces": {"names": ["bank"]},
            "announce": "bgp",
        }
        await create(running, POOLS, "public", spec)
        service: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "bank"}}
        service["spec"] = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        service["metadata"]["annotations"] = {ANNOTATION_POOL: "public", ANNOTATION_ADDRESSES: "203.0.113.5"}
        await running.admin.resource(SERVICES).create(service)
        async with asyncio.timeout(15):
            while not any(
                each["metadata"]["name"] == "203.0.113.5"
                for each in (await running.admin.resource(ADDRESSES).list()).items
            ):
                await asyncio.sleep(0.05)
        await create(running, PEERS, "tor", {"address": "192.0.2.1", "asn": 65001, "localASN": 65002})
        assert (await running.node("n2").patch(f"{ADDRESS}/status", {"status": {"nodes": [OTHER]}})).status == 200
        peer = {"status": {"nodes": [{"name": "n2", "state": "Established"}]}}
        assert (await running.node("n2").patch(f"{PEER}/status", peer)).status == 200
        yield running


async def create(wire: Wire, resource: Any, name: str, spec: Json) -> None:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
    await wire.admin.resource(resource).create(body)


async def of_others(wire: Wire) -> Json:
    """Return everything about the three objects that the stolen node may not change."""
    found: Json = {}
    for resource, name in ((ADDRESSES, "203.0.113.5"), (PEERS, "tor"), (POOLS, "public")):
        obj = await wire.admin.resource(resource).get(name)
        status = obj.get("status") or {}
        metadata = {
            key: obj["metadata"].get(key)
            for key in ("labels", "annotations", "ownerReferences", "uid", "deletionTimestamp")
        }
        nodes = [{**each, "since": ""} for each in status.get("nodes") or () if each["name"] not in ("n1", "n3")]
        found[name] = (
            metadata,
            obj["spec"],
            nodes,
            status.get("phase"),
            status.get("lastClaim"),
            status.get("quarantinedUntil"),
        )
        found[f"finalizers of {name}"] = sorted(set(obj["metadata"].get("finalizers") or ()))
    return found


def nodes(*entries: Json) -> Json:
    return {"status": {"nodes": list(entries)}}


PATCHES: dict[str, tuple[str, str, Json]] = {
    "the other gateway does not announce": ("n1", f"{ADDRESS}/status", nodes({**OTHER, "announcing": False})),
    "the other gateway is gone": ("n1", f"{ADDRESS}/status", nodes(MINE)),
    "nobody announces": ("n1", f"{ADDRESS}/status", {"status": {"nodes": []}}),
    "no status": ("n1", f"{ADDRESS}/status", {"status": None}),
    "another place of the other": ("n1", f"{ADDRESS}/status", nodes({**OTHER, "location": "sea"})),
    "another way of the other": ("n1", f"{ADDRESS}/status", nodes({**OTHER, "via": "evil"})),
    "its own name twice": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "announcing": False}, MINE)),
    "a name of its own making": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "name": "n9"})),
    "its name in capitals": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "name": "N1"})),
    "its name with a space": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "name": "n1 "})),
    "another Location": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "location": "sea"})),
    "no Location": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "location": ""})),
    "a node that is no gateway": ("n3", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "name": "n3"})),
    "free again": ("n1", f"{ADDRESS}/status", {"status": {"phase": "Available"}}),
    "in conflict": ("n1", f"{ADDRESS}/status", {"status": {"phase": "Conflict"}}),
    "never free again": ("n1", f"{ADDRESS}/status", {"status": {"quarantinedUntil": "2999-01-01T00:00:00Z"}}),
    "its own namespace's last": ("n1", f"{ADDRESS}/status", {"status": {"lastClaim": {"namespace": "evil"}}}),
    "conditions": ("n1", f"{ADDRESS}/status", {"status": {"conditions": []}}),
    "a generation": ("n1", f"{ADDRESS}/status", {"status": {"observedGeneration": 2**62}}),
    "a finalizer": ("n1", f"{ADDRESS}/status", {"metadata": {"finalizers": ["evil.example/keep"]}}),
    "no finalizer": ("n1", f"{ADDRESS}/status", {"metadata": {"finalizers": None}}),
    "labels": ("n1", f"{ADDRESS}/status", {"metadata": {"labels": {"a": "b"}}}),
    "annotations": ("n1", f"{ADDRESS}/status", {"metadata": {"annotations": {"a": "b"}}}),
    "owners": ("n1", f"{ADDRESS}/status", {"metadata": {"ownerReferences": []}}),
    "candidates by the status": ("n1", f"{ADDRESS}/status", {"spec": {"candidates": [EVIL]}}),
    "candidates": ("n1", ADDRESS, {"spec": {"candidates": [EVIL]}}),
    "voters": ("n1", ADDRESS, {"spec": {"voters": [EVIL]}}),
    "another holder": ("n1", ADDRESS, {"spec": {"claimRef": {"namespace": "evil", "kind": "Service", "name": "web"}}}),
    "another Service beside it": ("n1", ADDRESS, {"spec": {"sharedBy": [{"namespace": "bank"}]}}),
    "a session of the other": ("n1", f"{PEER}/status", nodes({"name": "n2", "state": "Idle"})),
    "no session of the other": ("n1", f"{PEER}/status", nodes({"name": "n1", "state": "Established"})),
    "a session without being chosen": ("n3", f"{PEER}/status", nodes(ESTABLISHED, {"name": "n3", "state": "Idle"})),
    "a finalizer of a peer": ("n1", f"{PEER}/status", {"metadata": {"finalizers": ["evil.example/keep"]}}),
    "another router": ("n1", PEER, {"spec": {"address": "1.2.3.4"}}),
    "another password": ("n1", PEER, {"spec": {"passwordSecret": "evil"}}),
    "another range": ("n1", POOL, {"spec": {"ranges": [{"cidr": "0.0.0.0/0"}]}}),
    "another gateway selector": ("n1", POOL, {"spec": {"gatewaySelector": {"matchLabels": {"evil": "true"}}}}),
    "the status of a pool": ("n1", f"{POOL}/status", {"status": {"conditions": []}}),
    "the label of gateways": ("n3", "/api/v1/nodes/n3", {"metadata": {"labels": {"submariner.io/gateway": "true"}}}),
    "another's gateway label": ("n1", "/api/v1/nodes/n2", {"metadata": {"labels": {"submariner.io/gateway": None}}}),
    "all addresses of the pool": ("n1", "/api/v1/nodes/n1", {"metadata": {"annotations": FACTS}}),
    "words without end": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "via": "x" * 2000})),
    "a reason without end": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "reason": "x" * 200})),
    "a time that is none": ("n1", f"{ADDRESS}/status", nodes(OTHER, {**MINE, "since": "9999-99-99"})),
}  # fmt: skip


@pytest.mark.parametrize("name", PATCHES)
async def test_a_stolen_node_writes_its_own_entry_at_most(wire: Wire, name: str) -> None:
    node, target, body = PATCHES[name]
    before = await of_others(wire)
    answer = await wire.node(node).patch(target, body)
    assert answer.status in (200, 403, 422, 400), answer
    after = await of_others(wire)
    assert after == before
    stored = (await wire.admin.resource(ADDRESSES).get("203.0.113.5"))["status"]["nodes"]
    assert {each["name"] for each in stored} <= {"n1", "n2", "n3"}
    assert not any(each.get("announcing") for each in stored if each["name"] == "n3")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST"])
@pytest.mark.parametrize("target", [ADDRESS, PEER, POOL])
async def test_a_stolen_node_makes_and_removes_none(wire: Wire, method: str, target: str) -> None:
    collection, _, name = target.rpartition("/")
    before = await of_others(wire)
    body = {"metadata": {"name": name}} if method != "DELETE" else {}
    answer = await wire.node("n1").send(method, collection if method == "POST" else target, body)
    assert answer.status == 403, answer
    assert (await wire.node("n1").send("DELETE", collection, None)).status == 403
    assert await of_others(wire) == before


@TWICE
async def test_an_announcement_of_a_node_that_is_no_gateway(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(nodeingress, "is_gateway", lambda *_: True)
    answer = await wire.node("n3").patch(f"{ADDRESS}/status", nodes(OTHER, {**MINE, "name": "n3"}))
    assert answer.status == (403 if defended else 200)


@TWICE
async def test_the_entry_of_another_gateway(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(nodeingress, "_only_own_entry", lambda *_: None)
    answer = await wire.node("n1").patch(f"{ADDRESS}/status", nodes({**OTHER, "announcing": False}))
    assert answer.status == (403 if defended else 200)


SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "evil"}}
TENANTS: dict[str, Json] = {
    "an address that another namespace has": {ANNOTATION_POOL: "public", ANNOTATION_ADDRESSES: "203.0.113.5"},
    "a share of another namespace's": {ANNOTATION_POOL: "public", ANNOTATION_SHARED: "203.0.113.5"},
    "a pool that is not granted": {ANNOTATION_POOL: "public"},
    "a pool that does not exist": {ANNOTATION_POOL: "nowhere"},
    "a pool with a path": {ANNOTATION_POOL: "../public"},
    "thousands of addresses": {ANNOTATION_ADDRESSES: ",".join(f"203.0.113.{n % 250}" for n in range(5000))},
    "an address of nodes": {ANNOTATION_POOL: "public", ANNOTATION_ADDRESSES: "10.0.0.1"},
    "an address of Services": {ANNOTATION_POOL: "public", ANNOTATION_ADDRESSES: "10.96.0.1"},
    "text": {ANNOTATION_POOL: "public", ANNOTATION_ADDRESSES: "\x1b[2J"},
}  # fmt: skip


@pytest.mark.parametrize("name", TENANTS)
async def test_a_tenant_gets_no_address_of_others(wire: Wire, name: str) -> None:
    evil = await tenant(wire, "evil")
    before = await of_others(wire)
    body = {**SERVICE, "metadata": {"name": "evil", "annotations": TENANTS[name]}}
    body["spec"] = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    answer = await evil.post("/api/v1/namespaces/evil/services", body)
    assert answer.status in (201, 403, 422), answer
    await asyncio.sleep(0.5)
    assert await of_others(wire) == before
    held = {each["spec"]["address"] for each in (await wire.admin.resource(ADDRESSES).list()).items}
    assert held == {"203.0.113.5"}, "the pool is for the namespace bank"
    text = (await evil.get("/api/v1/namespaces/evil/services/evil")).body
    assert "bank" not in str(text), "the holder of the address is not named"


@pytest.mark.parametrize(("method", "target"), [
    ("GET", ADDRESS), ("GET", PEER), ("PATCH", ADDRESS), ("PATCH", f"{ADDRESS}/status"), ("DELETE", ADDRESS),
    ("PATCH", POOL), ("DELETE", POOL), ("PATCH", PEER),
])  # fmt: skip
async def test_a_tenant_reads_and_writes_none(wire: Wire, method: str, target: str) -> None:
    evil = await tenant(wire, "evil", "admin")
    content = ("Content-Type", "application/merge-patch+json")
    answer = await evil.send(method, target, None if method == "GET" else {"metadata": {"labels": {"a": "b"}}}, content)
    assert answer.status == 403, answer
