"""A stolen node creates mirrors of static pods in every namespace; none of them affects the pods there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import BUDGETS, ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from tests.security.tenants import mirror_of, placed, pod, ready_nodes, tenant
from tests.security.wire import Answer, Json, Wire, serving

QUOTAS = dynamic("v1", "resourcequotas", "ResourceQuota")
BANK = "/api/v1/namespaces/bank/pods"
REGION = "topology.kubernetes.io/region"
WEB = {"app": "web"}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": REGION}
        ]
    }
}
SPREAD = [{"maxSkew": 1, "topologyKey": REGION, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
READY = [{"type": "Ready", "status": "True"}]


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await ready_nodes(running, "n1", "n2", labels={REGION: "r"})
        await tenant(running, "bank")
        yield running


async def mirror(wire: Wire, name: str, **more: Any) -> Answer:
    return await wire.node("n1").post(BANK, await mirror_of(wire, "n1", name, **more))


async def report(wire: Wire, name: str, address: str) -> Answer:
    status: Json = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": READY}
    return await wire.node("n1").patch(f"{BANK}/{name}/status", {"status": status})


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("spec.affinity", {"affinity": APART}),
        ("spec.topologySpreadConstraints", {"topologySpreadConstraints": SPREAD}),
        ("spec.priorityClassName", {"priorityClassName": "low"}),
    ],
)
async def test_fields_about_other_pods_are_refused(wire: Wire, field: str, more: Json) -> None:
    answer = await mirror(wire, "x", **more)
    assert (answer.status, field in answer.message) == (403, True), answer


@pytest.mark.parametrize("namespace", ["kube-system", "default", "bank"])
async def test_ordinary_mirrors_are_created_in_any_namespace(wire: Wire, namespace: str) -> None:
    body = await mirror_of(wire, "n1", "x", labels=WEB, priorityClassName="system-node-critical", hostNetwork=True)
    if namespace != "kube-system":
        body["spec"].pop("hostNetwork")
    answer = await wire.node("n1").post(f"/api/v1/namespaces/{namespace}/pods", body)
    assert answer.status == 201, answer


async def test_a_mirror_is_no_endpoint_of_a_service(wire: Wire) -> None:
    body: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "bank"}}
    await wire.admin.resource(SERVICES).create({**body, "spec": {"selector": WEB, "ports": [{"port": 80}]}})
    assert (await mirror(wire, "x", labels=WEB)).status == 201
    assert (await report(wire, "x", "203.0.113.66")).status == 200
    real = await wire.admin.resource(PODS).create(
        {**pod("real", labels=WEB, nodeName="n2"), "metadata": {"name": "real", "namespace": "bank", "labels": WEB}}
    )
    status: Json = {"phase": "Running", "podIP": "10.9.0.7", "podIPs": [{"ip": "10.9.0.7"}], "conditions": READY}
    await wire.admin.resource(PODS).patch(real["metadata"]["name"], {"status": status}, "bank", subresource="status")
    found: list[str] = []
    async with asyncio.timeout(10):
        while not found:
            await asyncio.sleep(0.05)
            slices = (await wire.admin.resource(ENDPOINT_SLICES).list("bank")).items
            found = [each for one in slices for end in one["endpoints"] or () for each in end["addresses"]]
    assert found == ["10.9.0.7"]


async def test_nodes_learn_neither_labels_nor_addresses_of_a_mirror(wire: Wire) -> None:
    """The agents' policies select peers by them."""
    assert (await mirror(wire, "x", labels=WEB)).status == 201
    assert (await report(wire, "x", "203.0.113.66")).status == 200
    path = "/apis/networking.datumapis.com/v1alpha/namespaces/bank/podendpoints/x"
    shown = (await wire.node("n2").get(path)).body
    assert (shown["metadata"].get("labels") or {}, shown.get("addresses") or []) == ({}, [])


async def test_a_pod_on_the_host_network_has_the_addresses_of_its_node(wire: Wire) -> None:
    assert (await mirror(wire, "x", hostNetwork=True)).status == 403, (
        "of bank, in which pod security rejects host ports"
    )
    system = "/api/v1/namespaces/kube-system/pods"
    body = await mirror_of(wire, "n1", "x", hostNetwork=True)
    assert (await wire.node("n1").post(system, body)).status == 201
    for field in ("pod", "host"):
        for address, expected in (("10.0.0.1", 200), ("10.0.0.2", 403), ("203.0.113.66", 403)):
            status = {"status": {f"{field}IP": address, f"{field}IPs": [{"ip": address}]}}
            answer = await wire.node("n1").patch(f"{system}/x/status", status)
            assert answer.status == expected, (field, address, answer)


async def test_mirrors_count_in_no_quota(wire: Wire) -> None:
    hard = {"pods": "1", "count/pods": "1", "requests.cpu": "1"}
    body: Json = {"metadata": {"name": "q", "namespace": "bank"}, "spec": {"hard": hard}}
    await wire.admin.resource(QUOTAS).create({"apiVersion": "v1", "kind": "ResourceQuota", **body})
    for number in range(3):
        assert (await mirror(wire, f"x{number}", requests={"cpu": "1"})).status == 201
    own = {**pod("mine", requests={"cpu": "1"})}
    own["metadata"]["namespace"] = "bank"
    await wire.admin.resource(PODS).create(own)
    used = (await wire.admin.resource(QUOTAS).get("q", "bank"))["status"]["used"]
    assert used == hard


async def test_the_eviction_of_a_mirror_spends_no_budget(wire: Wire) -> None:
    body: Json = {"metadata": {"name": "web", "namespace": "bank"}}
    body["spec"] = {"minAvailable": 0, "selector": {"matchLabels": WEB}}
    await wire.admin.resource(BUDGETS).create({"apiVersion": BUDGETS.api_version, "kind": BUDGETS.kind, **body})
    assert (await mirror(wire, "x", labels=WEB)).status == 201
    assert (await report(wire, "x", "203.0.113.66")).status == 200
    async with asyncio.timeout(10):
        while "observedGeneration" not in ((found := await budget(wire)).get("status") or {}):
            await asyncio.sleep(0.05)
    assert found["status"]["currentHealthy"] == 0
    eviction: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x", "namespace": "bank"}}
    assert (await wire.node("n1").post(f"{BANK}/x/eviction", eviction)).status == 201
    assert "disruptedPods" not in (await budget(wire))["status"]


async def budget(wire: Wire) -> Json:
    return await wire.admin.resource(BUDGETS).get("web", "bank")


async def test_pods_are_scheduled_beside_mirrors(wire: Wire) -> None:
    """The pods' own required anti-affinity counts other pods, but no mirror."""
    assert (await mirror(wire, "x", labels=WEB)).status == 201
    own = {"labelSelector": {"matchLabels": WEB}, "topologyKey": REGION}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    body = pod("mine", labels=WEB, affinity=affinity)
    body["metadata"]["namespace"] = "bank"
    await wire.admin.resource(PODS).create(body)
    assert await placed(wire, "bank", "mine") in ("n1", "n2")


async def test_a_namespace_with_a_mirror_is_deleted(wire: Wire) -> None:
    """The mirror's node, which never confirms a deletion, is still there."""
    assert (await mirror(wire, "x", terminationGracePeriodSeconds=2**31 - 1)).status == 201
    await wire.admin.resource(NAMESPACES).delete("bank")
    async with asyncio.timeout(10):
        while "bank" in {each["metadata"]["name"] for each in (await wire.admin.resource(NAMESPACES).list()).items}:
            await asyncio.sleep(0.05)
    assert (await mirror(wire, "x")).status in (403, 404)
    assert await wire.admin.resource(NODES).get("n1")
