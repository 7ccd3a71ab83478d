"""Attacks of a stolen node or a tenant on other tenants, with each defence and without it.

Each attack is made twice: it must fail with the defence and succeed without it, so a test here cannot pass for another
reason than the one it names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.kubernetes.core.pods import strategy
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import BUDGETS, ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from tarmac.controllers.certificates.controller import CertificateController
from tarmac.controllers.disruption import controller as disruption
from tarmac.controllers.noderemoval import forget_node
from tarmac.controllers.service import controller as services
from tarmac.decide import amounts, eviction
from tarmac.decide.addresses import mtu
from tarmac.decide.scheduling import Scheduler, demand
from tarmac.server.admission.nodes import nodeaddresses, noderestriction
from tarmac.server.admission.pods.antiaffinity import CrossNamespaceAntiAffinity
from tarmac.server.admission.quota import charges
from tarmac.server.nodes import isolation
from tests.attacking import TWICE
from tests.security.tenants import mirror_of, placed, pod, ready_nodes, tenant
from tests.security.wire import KEY, Answer, Json, Wire, csr, pair_of, serving, signing_request

NODE = "/api/v1/nodes/n1"
BANK = "/api/v1/namespaces/bank/pods"
REGION = "topology.kubernetes.io/region"
WEB = {"app": "web"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
READY = [{"type": "Ready", "status": "True"}]
FOREIGN = "203.0.113.66"
QUOTAS = dynamic("v1", "resourcequotas", "ResourceQuota")
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await ready_nodes(running, "n1", "n2", labels={REGION: "r"})
        await tenant(running, "bank")
        yield running


def never(*_: object) -> bool:
    return False


def nothing(*_: object) -> None:
    return None


async def mirror(wire: Wire, **more: Any) -> Answer:
    return await wire.node("n1").post(BANK, await mirror_of(wire, "n1", "x", labels=WEB, **more))


async def report(wire: Wire, address: str) -> Answer:
    status: Json = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": READY}
    return await wire.node("n1").patch(f"{BANK}/x/status", {"status": status})


async def is_placed(wire: Wire, **more: Any) -> bool:
    """Return whether a Pod of the bank gets a node."""
    body = pod("mine", **more)
    body["metadata"]["namespace"] = "bank"
    await wire.admin.resource(PODS).create(body)
    return await placed(wire, "bank", "mine", seconds=2) in ("n1", "n2")


@TWICE
async def test_a_pod_of_an_enormous_size(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(amounts, "MAX_AMOUNT", 10**2000)
        monkeypatch.setattr(
            Scheduler,
            "_best",
            lambda _self, plan, _pod, found: max(found, key=lambda info: sum(each(info) for each in plan.scores)),
        )
    evil = await tenant(wire, "evil")
    huge = pod("x", requests={"cpu": "1e400"}, nodeName="n1")
    assert (await evil.post("/api/v1/namespaces/evil/pods", huge)).status == 201
    assert await is_placed(wire) is defended


@TWICE
@pytest.mark.parametrize("more", [{"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": REGION}]}}}])
async def test_a_mirror_with_rules_for_others(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool, more: Json
) -> None:
    if not defended:
        monkeypatch.setattr(noderestriction, "check_mirror_spec", nothing)
    assert (await mirror(wire, **more)).status == (403 if defended else 201)


@TWICE
async def test_a_mirror_behind_a_service(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(services, "is_mirror", never)
    body: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "bank"}}
    await wire.admin.resource(SERVICES).create({**body, "spec": {"selector": WEB, "ports": [{"port": 80}]}})
    assert (await mirror(wire)).status == 201
    assert (await report(wire, FOREIGN)).status == 200
    await asyncio.sleep(1.5)
    slices = (await wire.admin.resource(ENDPOINT_SLICES).list("bank")).items
    found = [each for one in slices for end in one["endpoints"] or () for each in end["addresses"]]
    assert (FOREIGN not in found) is defended


@TWICE
async def test_a_mirror_in_a_quota(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(charges, "is_mirror", never)
    body: Json = {"metadata": {"name": "q", "namespace": "bank"}, "spec": {"hard": {"pods": "1"}}}
    await wire.admin.resource(QUOTAS).create({"apiVersion": "v1", "kind": "ResourceQuota", **body})
    assert (await mirror(wire)).status == 201
    admin = wire.attacker(wire.pki.admin())
    assert (await admin.post(BANK, pod("mine"))).status == (201 if defended else 403)


@TWICE
async def test_a_mirror_and_a_budget(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(disruption, "is_mirror", never)
        monkeypatch.setattr(eviction, "is_mirror", never)
    body: Json = {"metadata": {"name": "web", "namespace": "bank"}}
    body["spec"] = {"minAvailable": 0, "selector": {"matchLabels": WEB}}
    await wire.admin.resource(BUDGETS).create({"apiVersion": BUDGETS.api_version, "kind": BUDGETS.kind, **body})
    assert (await mirror(wire)).status == 201
    assert (await report(wire, FOREIGN)).status == 200
    await asyncio.sleep(1)
    evicted: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x", "namespace": "bank"}}
    assert (await wire.node("n1").post(f"{BANK}/x/eviction", evicted)).status == 201
    status = (await wire.admin.resource(BUDGETS).get("web", "bank"))["status"]
    assert ("x" not in (status.get("disruptedPods") or {})) is defended


@TWICE
async def test_a_mirror_near_other_pods(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(demand, "is_mirror", never)
    assert (await mirror(wire)).status == 201
    await asyncio.sleep(0.3)
    terms = [{"labelSelector": {"matchLabels": WEB}, "topologyKey": REGION}]
    assert await is_placed(wire, affinity={"podAntiAffinity": {REQUIRED: terms}}) is defended


@TWICE
async def test_a_mirror_in_a_deleted_namespace(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(strategy, "is_mirror", never)
    assert (await mirror(wire, terminationGracePeriodSeconds=10_000)).status == 201
    await wire.admin.resource(NAMESPACES).delete("bank")
    await asyncio.sleep(3)
    left = {each["metadata"]["name"] for each in (await wire.admin.resource(NAMESPACES).list()).items}
    assert ("bank" not in left) is defended


@TWICE
async def test_a_foreign_address_on_the_host_network(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(noderestriction, "check_addresses", nothing)
    path = "/api/v1/namespaces/kube-system/pods"
    body = await mirror_of(wire, "n1", "x", hostNetwork=True)
    assert (await wire.node("n1").post(path, body)).status == 201
    status = {"status": {"podIP": FOREIGN, "podIPs": [{"ip": FOREIGN}]}}
    answer = await wire.node("n1").patch(f"{path}/x/status", status)
    assert answer.status == (403 if defended else 200)


@TWICE
@pytest.mark.parametrize("target", [NODE, f"{NODE}/status"])
async def test_a_finalizer_of_a_node(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool, target: str) -> None:
    if not defended:
        monkeypatch.setattr(noderestriction, "check_metadata", nothing)
    answer = await wire.node("n1").patch(target, {"metadata": {"finalizers": ["a.example/keep"]}})
    assert answer.status == (403 if defended else 200)


@TWICE
@pytest.mark.parametrize("label", ["kubernetes.io/hostname", "tarmac.dev/x"])
async def test_labels_that_are_not_the_nodes(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool, label: str
) -> None:
    if not defended:
        monkeypatch.setattr(noderestriction, "_HOSTNAME", "none")
        monkeypatch.setattr(noderestriction, "_is_forbidden", never)
    answer = await wire.node("n1").patch(NODE, {"metadata": {"labels": {label: "n2"}}})
    assert answer.status == (403 if defended else 200)


@TWICE
async def test_anti_affinity_against_all(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(CrossNamespaceAntiAffinity, "validate", nothing)
    evil = await tenant(wire, "evil")
    terms = [{"labelSelector": {}, "namespaceSelector": {}, "topologyKey": REGION}]
    body = pod("x", affinity={"podAntiAffinity": {REQUIRED: terms}})
    answer = await evil.post("/api/v1/namespaces/evil/pods", body)
    assert answer.status == (403 if defended else 201)
    assert defended or await placed(wire, "evil", "x") in ("n1", "n2")
    assert await is_placed(wire) is defended


@TWICE
async def test_addresses_write_by_write(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(nodeaddresses, "_MAX_ENTRIES", 10_000)
    stated: list[str] = []
    for block in range(3):
        stated += [f"172.{16 + block}.{number}.9" for number in range(40)]
        entries = [{"type": "InternalIP", "address": each} for each in stated]
        await wire.node("n1").patch(f"{NODE}/status", {"status": {"addresses": entries}})
    kept = (await wire.admin.resource(NODES).get("n1"))["status"]["addresses"]
    assert len(kept) == (40 if defended else 120)


@TWICE
async def test_a_certificate_for_a_removed_node(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:

        async def unrevoked(*_: object) -> bool:
            return False

        monkeypatch.setattr(CertificateController, "_is_revoked", unrevoked)
    removed, approve = asyncio.Event(), CertificateController._approve

    async def late(controller: CertificateController, document: Json) -> None:
        await removed.wait()
        await approve(controller, document)

    monkeypatch.setattr(CertificateController, "_approve", late)
    pem, node = csr("system:node:n1", "system:nodes", key=KEY), wire.node("n1")
    names = [f"c{number}" for number in range(3)]
    await asyncio.gather(*(node.post(REQUESTS, signing_request(pem, name=name)) for name in names))
    await forget_node(wire.admin, "n1")
    await asyncio.sleep(1.2)  # the time of a revocation has whole seconds
    removed.set()
    valid = 0
    for name in names:
        if (status := await wire.decided(name)).get("certificate"):
            valid += (await wire.attacker(pair_of(status)).get("/api/v1/services")).status == 200
    assert (valid == 0) is defended


@TWICE
def test_an_underlay_smaller_than_those_of_the_peers(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(mtu, "median_low", min)
    sizes = ("1500", "1500", "1390")
    nodes: list[Json] = [
        {"metadata": {"annotations": {mtu.ANNOTATION_UNDERLAY_MTU: size}}, "status": {}} for size in sizes
    ]
    assert mtu.packet_size(1460, nodes) == (1430 if defended else 1320)


@TWICE
def test_a_header_that_browsers_learn_tomorrow(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(isolation, "_is_kept", lambda _name: True)
    relayed = isolation.isolated([("Content-Type", "text/html"), ("Use-As-Dictionary", 'match="/*"')], "h", "")
    assert ("Use-As-Dictionary" not in dict(relayed)) is defended
    assert dict(relayed)["Content-Type"] == "text/html"
