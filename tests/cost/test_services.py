"""A Service with the maximum of ports, resolved differently by each pod, does not block the event loop."""

from __future__ import annotations

import asyncio
import gc
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.decode.limits import MAX_ITEMS
from tarmac.apps.control_plane import Address, Chosen, Running, control_plane
from tarmac.apps.layout import Layout
from tests.cost.measuring import ADMIN, ALLOWED, Server, at_best
from tests.cost.test_lists import longest_hold

pytestmark = [pytest.mark.timeout(120)]

PORTS = MAX_ITEMS["io.k8s.api.core.v1.ServiceSpec"]["ports"]
PODS = 40
CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def pod(number: int) -> dict[str, Any]:
    ports = [{"name": f"p{each}", "containerPort": 1 + number + each} for each in range(PORTS)]
    container = {"name": "c", "image": "registry.example/app:1", "ports": ports}
    return {"metadata": {"name": f"w{number}", "labels": {"app": "web"}}, "spec": {"containers": [container]}}


def service(name: str) -> dict[str, Any]:
    ports = [{"name": f"p{each}", "port": 1 + each, "targetPort": f"p{each}"} for each in range(PORTS)]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": ports}}


async def start(server: Server, number: int) -> None:
    assert (await server.send("POST", f"{CORE}/pods", pod(number), user=ADMIN)).status == 201
    status = {"phase": "Running", "podIPs": [{"ip": f"10.0.0.{number + 1}"}], "podIP": f"10.0.0.{number + 1}"}
    patch, kind = {"status": status}, "application/merge-patch+json"
    assert (await server.send("PATCH", f"{CORE}/pods/w{number}/status", patch, kind, user=ADMIN)).status == 200


async def slices(running: Running, count: int, name: str) -> None:
    """Wait until there are so many slices, and the Endpoints object too."""
    store, endpoints = running.store, f"default/{name}"
    while store.count("discovery.k8s.io/endpointslices") < count or store.head("core/endpoints", endpoints) is None:
        await asyncio.sleep(0)


async def test_ports_times_pods_are_worked_out_in_pieces(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    async with control_plane(layout, Address("127.0.0.1", 0), Chosen("service")) as running, asyncio.timeout(60):
        server = Server(running.server)
        account = {"metadata": {"name": "default"}}
        await server.send("POST", f"{CORE}/serviceaccounts", account, user=ADMIN)
        for number in range(PODS):
            await start(server, number)
        names = (f"web-{number}" for number in count())

        async def once() -> float:
            name, before = next(names), running.store.count("discovery.k8s.io/endpointslices")
            assert (await server.send("POST", f"{CORE}/services", service(name), user=ADMIN)).status == 201
            return await longest_hold(slices(running, before + PODS, name))

        gc.collect()
        gc.freeze()  # objects of the test are not collected meanwhile
        held = await at_best(once)
        print(f"\nthe longest that anybody waited: {held * 1000:.1f} ms")
        assert held < ALLOWED
