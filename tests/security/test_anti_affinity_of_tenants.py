"""Required anti-affinity of a tenant's Pod keeps no Pod of another namespace away."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.security.tenants import placed, pod, ready_nodes, tenant
from tests.security.wire import Attacker, Json, Wire, serving

REGION = "topology.kubernetes.io/region"
BY_NAME = {"matchLabels": {"kubernetes.io/metadata.name": "bank"}}
OWN_NAME = {"matchLabels": {"kubernetes.io/metadata.name": "evil"}}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await ready_nodes(running, "n1", "n2", labels={REGION: "r"})
        yield running


def apart(strength: str = "required", kind: str = "podAntiAffinity", **more: object) -> Json:
    term = {"labelSelector": {}, "topologyKey": REGION, **more}
    terms = [term] if strength == "required" else [{"weight": 1, "podAffinityTerm": term}]
    return {kind: {f"{strength}DuringSchedulingIgnoredDuringExecution": terms}}


async def create(user: Attacker, namespace: str, affinity: Json, name: str = "x") -> tuple[int, str]:
    answer = await user.post(f"/api/v1/namespaces/{namespace}/pods", pod(name, affinity=affinity))
    return answer.status, answer.message


@pytest.mark.parametrize(
    "more",
    [
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"team": "bank"}}},
        {"namespaceSelector": BY_NAME},
        {"namespaces": ["bank"]},
        {"namespaces": ["evil", "bank"]},
        {"namespaces": ["evil"], "namespaceSelector": {}},
    ],
)
async def test_against_other_namespaces_it_is_refused(wire: Wire, more: Json) -> None:
    evil, bank = await tenant(wire, "evil"), await tenant(wire, "bank")
    status, message = await create(evil, "evil", apart(**more))
    assert (status, "the right to create Pods in " in message) == (403, True), message
    assert (await bank.post("/api/v1/namespaces/bank/pods", pod("victim"))).status == 201
    assert await placed(wire, "bank", "victim") in ("n1", "n2")


@pytest.mark.parametrize(
    "affinity",
    [
        apart(),
        apart(namespaces=["evil"]),
        apart(namespaceSelector=OWN_NAME),
        apart("preferred", namespaceSelector={}),
        apart(kind="podAffinity", namespaceSelector={}),
    ],
)
async def test_terms_without_an_effect_on_others_are_accepted(wire: Wire, affinity: Json) -> None:
    evil, bank = await tenant(wire, "evil"), await tenant(wire, "bank")
    status, message = await create(evil, "evil", affinity)
    assert status == 201, message
    assert (await bank.post("/api/v1/namespaces/bank/pods", pod("victim"))).status == 201
    assert await placed(wire, "bank", "victim") in ("n1", "n2")


async def test_an_administrator_may(wire: Wire) -> None:
    admin = wire.attacker(wire.pki.admin())
    assert (await create(admin, "default", apart(namespaceSelector={})))[0] == 201
