"""A quantity beyond every float, of one tenant or one node, does not affect pods of other tenants."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.security.tenants import mirror_of, placed, pod, ready_nodes, tenant
from tests.security.wire import Wire, serving

BEYOND = {"cpu": "1e400", "memory": "1e400"}


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        await ready_nodes(running, "n1", "n2")
        yield running


async def test_pods_are_scheduled_beside_an_enormous_pod_of_another_tenant(wire: Wire) -> None:
    evil, bank = await tenant(wire, "evil"), await tenant(wire, "bank")
    assert (await evil.post("/api/v1/namespaces/evil/pods", pod("x", requests=BEYOND, nodeName="n1"))).status == 201
    for name, requests in (("plain", {}), ("small", {"cpu": "1m"})):
        assert (await bank.post("/api/v1/namespaces/bank/pods", pod(name, requests=requests))).status == 201
        assert await placed(wire, "bank", name) in ("n1", "n2")


async def test_pods_are_scheduled_beside_an_enormous_pod_of_a_stolen_node(wire: Wire) -> None:
    bank = await tenant(wire, "bank")
    await wire.node("n1").post("/api/v1/namespaces/default/pods", await mirror_of(wire, "n1", "x", requests=BEYOND))
    assert (await bank.post("/api/v1/namespaces/bank/pods", pod("plain"))).status == 201
    assert await placed(wire, "bank", "plain") in ("n1", "n2")


@pytest.mark.parametrize("amount", ["1e400", "1e-9", "9223372036854775807", "0"])
async def test_pods_are_scheduled_beside_a_node_of_an_extreme_size(wire: Wire, amount: str) -> None:
    bank = await tenant(wire, "bank")
    size = {"cpu": amount, "memory": amount, "pods": "110"}
    status = {"status": {"capacity": size, "allocatable": size}}
    assert (await wire.node("n1").patch("/api/v1/nodes/n1/status", status)).status == 200
    assert (await bank.post("/api/v1/namespaces/bank/pods", pod("plain"))).status == 201
    assert await placed(wire, "bank", "plain") in ("n1", "n2")
    why = await wire.admin.call("GET", "/api/v1/namespaces/bank/pods/plain/why")
    assert why.status == 200
