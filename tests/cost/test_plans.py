"""A plan blocks the loop no longer than a create does: for many objects in its file, and for a large Workload."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tests.cost.bases import base
from tests.cost.measuring import ADMIN, ALLOWED, Reply, Server, at_best, longest_turn, serving

PLAN = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads/w/plan"
LOCATIONS = "/apis/networking.datumapis.com/v1alpha/locations"
MAX_OBJECTS = 200
MAX_WORKLOADS = 20
KINDS = {each.plural: each for each in build_catalog() if each.stored and "create" in each.verbs}
SIZE = {"cpu": "100000", "memory": "100000Gi", "pods": "100000"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    """Two cities, each with a node that has room for everything."""
    async with serving(tmp_path) as running:
        for city in ("DFW", "LHR"):
            topology = {"topology.datum.net/city-code": city, "topology.datum.net/region": "x"}
            spec = {"locationClassName": "self-managed", "topology": topology, "provider": {"nodes": {}}}
            await running.send("POST", LOCATIONS, {"metadata": {"name": city.lower()}, "spec": spec}, user=ADMIN)
            node = {"metadata": {"name": city.lower(), "labels": {"topology.datum.net/location": city.lower()}}}
            await running.send("POST", "/api/v1/nodes", node, user=ADMIN)
            status = {"capacity": SIZE, "allocatable": SIZE, "conditions": [{"type": "Ready", "status": "True"}]}
            path = f"/api/v1/nodes/{city.lower()}/status"
            await running.send("PATCH", path, {"status": status}, "application/merge-patch+json", user=ADMIN)
        yield running


async def hold(server: Server, *objects: Any) -> tuple[float, Reply]:
    """Return the longest turn of the loop while a file is planned, and the response."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": [workload(), *objects]}).encode()
    replies: list[Reply] = []

    async def once() -> float:
        async with longest_turn() as most:
            replies.append(await server.send("POST", PLAN, body, turns=1))
        return most[0]

    return await at_best(once), replies[0]


def workload(name: str = "w", placements: int = 1, replicas: int = 1) -> Any:
    made = base(KINDS["workloads"], name)
    scale = {"minReplicas": replicas}
    placed = [{"name": f"p{each}", "cityCodes": ["DFW", "LHR"], "scaleSettings": scale} for each in range(placements)]
    return {**made, "spec": {**made["spec"], "placements": placed}}


async def test_a_file_of_any_kind_is_planned_in_short_turns(server: Server) -> None:
    slow: list[str] = []
    for plural, resource in KINDS.items():
        others = MAX_WORKLOADS - 1 if plural == "workloads" else MAX_OBJECTS - 1
        seconds, reply = await hold(server, *[base(resource, f"o{number}") for number in range(others)])
        assert reply.status in (200, 400), (plural, reply.body)
        slow += [f"{seconds * 1000:.0f} ms {plural}"] if seconds > ALLOWED else []
    assert not slow


async def test_more_objects_than_that_are_rejected(server: Server) -> None:
    for plural, most in (("configmaps", MAX_OBJECTS), ("workloads", MAX_WORKLOADS)):
        _, reply = await hold(server, *[base(KINDS[plural], f"o{number}") for number in range(most)])
        assert (reply.status, f"at most {most}".encode() in reply.body) == (400, True), reply.body


async def test_a_hundred_thousand_instances_are_planned_in_short_turns(server: Server) -> None:
    huge = [workload(f"o{number}", 50, 1000) for number in range(10)]
    seconds, reply = await hold(server, *huge)
    assert reply.status == 200, reply.body
    assert seconds <= ALLOWED
