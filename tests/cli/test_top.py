"""`tarmac top` of a planet with measurements of a stand-in."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.apps.commands import parser
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.randomness import Randomness
from tarmac.cli.top.top import top
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tarmac.server.security.users import User
from tests.cli.test_verbs_on_a_planet import Terminal
from tests.controllers.planet import Planet, play

METRICS = "/apis/metrics.k8s.io/v1beta1"
VIEWER = User("viewer", groups=("system:authenticated",))


class Meter:
    """Answers for metrics.k8s.io; `used` by name: processor in thousandths, memory in MiB, age in seconds."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.used: dict[str, tuple[int, int, float]] = {}
        self.exposed: dict[str, str] = {}  # the metrics of a node, by name

    async def request(self, request: ClientRequest) -> Reply:
        if request.path.endswith("/proxy/metrics") and (text := self.exposed.get(request.path.split("/")[4])):
            return Reply(200, {}, text.encode())
        if not request.path.startswith(METRICS):
            return await self._inner.request(request)
        items = [
            self._item(name, request.path.endswith("/pods")) for name in self.used if self._is_asked(name, request)
        ]
        return Reply(200, {}, json.dumps({"kind": "List", "metadata": {}, "items": items}).encode())

    def _is_asked(self, name: str, request: ClientRequest) -> bool:
        return name.startswith("web") == request.path.endswith("/pods")

    def _item(self, name: str, pod: bool) -> JsonObject:
        cpu, memory, age = self.used[name]
        usage = {"cpu": f"{cpu * 10**6}n", "memory": f"{memory * 1024}Ki"}
        metadata = {"name": name} | ({"namespace": "default"} if pod else {})
        own: JsonObject = {"containers": [{"name": "main", "usage": usage}]} if pod else {"usage": usage}
        return {"metadata": metadata, "timestamp": rfc3339(self._clock.now() - age), **own}

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class Desk:
    """A user who reads the usage."""

    def __init__(self, planet: Planet, client: Client | None = None, live: bool = False) -> None:
        found = client or planet.user
        self.meter = Meter(found.transport, found.clock)
        self.client = Client(self.meter, found.clock, Randomness(3))
        self.out, self.err = Terminal(live), Terminal(False)

    async def top(self, *words: str) -> int:
        self.out.truncate(0)
        self.out.seek(0)
        return await top(
            self.client, "default", parser().parse_args(["top", *words]), Console(self.out, self.err)
        )  # fmt: skip

    @property
    def cells(self) -> list[list[str]]:
        return [line.split() for line in self.out.getvalue().splitlines()]


async def desk(planet: Planet, **more: Any) -> tuple[Desk, list[str]]:
    planet.start()
    await planet.apply(cities=("DFW", "LHR"), replicas=1)
    await planet.ready(2)
    return Desk(planet, **more), sorted(each["metadata"]["name"] for each in await planet.all(planet.pods))


def test_cities_and_nodes_are_measured_against_what_they_have() -> None:
    async def story(planet: Planet) -> None:
        one, _ = await desk(planet)
        one.meter.used = {"dfw-0": (1000, 1024, 5), "dfw-1": (600, 512, 5), "lhr-0": (3200, 64, 5)}
        assert await one.top() == 0
        shown = one.cells
        assert shown[0] == ["CITY", "INSTANCES", "CPU", "CPU%", "MEMORY", "MEMORY%"]
        # a share of the nodes that are measured: lhr-1 is not
        assert [row[:4] for row in shown[1:]] == [
            ["LHR", "1", "3200m", "10%"],
            ["DFW", "1", "1600m", "2%"],
            ["SEA", "0", "-", "-"],
        ]
        assert await one.top("nodes", "--city", "dfw,lhr", "--sort-by", "memory") == 0
        assert [row[:4] for row in one.cells] == [
            ["NODE", "CITY", "INSTANCES", "CPU"],
            ["dfw-0", "DFW", "1", "1000m"],
            ["dfw-1", "DFW", "0", "600m"],
            ["lhr-0", "LHR", "1", "3200m"],
            ["lhr-1", "LHR", "0", "-"],
        ]

    play(story)


def test_workloads_and_instances_are_measured_against_what_they_asked_for() -> None:
    async def story(planet: Planet) -> None:
        one, (dfw, lhr) = await desk(planet)
        one.meter.used = {dfw: (500, 1024, 5), lhr: (1500, 100, 5)}
        assert await one.top("workloads") == 0
        assert one.cells == [
            ["NAME", "CITIES", "INSTANCES", "CPU", "CPU%", "MEMORY", "MEMORY%"],
            ["web", "DFW,LHR", "2", "2000m", "50%", "1124Mi", "27%"],
        ]
        assert await one.top("workloads", "--city", "DFW", "-A") == 0
        assert one.cells[1][:5] == ["default", "web", "DFW", "1", "500m"]
        assert await one.top("instances") == 0
        assert [row[:4] for row in one.cells[1:]] == [[lhr, "LHR", "lhr-0", "1500m"], [dfw, "DFW", "dfw-0", "500m"]]
        assert await one.top("instances", "-l", "compute.datumapis.com/city-code=DFW", "-o", "json") == 0
        (row,) = json.loads(one.out.getvalue())["instances"]
        assert row == {
            "namespace": "default", "name": dfw, "city": "DFW", "node": "dfw-0", "cpu": "500m", "cpuPercent": 25,
            "memory": "1024Mi", "memoryPercent": 50, "stale": False,
        }  # fmt: skip

    play(story)


def test_gpus_are_rows_of_the_nodes_that_have_some() -> None:
    async def story(planet: Planet) -> None:
        one, _ = await desk(planet)
        figures = 'gpu="GPU-1",index="0",model="NVIDIA H200",namespace="ml",pod="train-0"'
        one.meter.exposed = {
            "dfw-1": f'tarmac_gpu_utilization_ratio{{{figures}}} 0.4\ntarmac_gpu_healthy{{{figures},reason=""}} 1\n'
        }
        assert await one.top("--gpu", "--city", "DFW") == 0
        assert [" ".join(row) for row in one.cells[1:]] == [
            "dfw-0 8 of 8 tesla-a100 - - - - Unknown -",
            "dfw-1 0 NVIDIA H200 40% - - - Healthy ml/train-0",
        ]
        assert await one.top("--gpu", "-o", "json") == 0
        rows = json.loads(one.out.getvalue())["gpus"]
        assert [(row["node"], row["utilization"], row["healthy"]) for row in rows][:2] == [
            ("dfw-0", None, None), ("dfw-1", 0.4, True),
        ]  # fmt: skip

    play(story)


def test_old_samples_are_questionable_and_none_are_a_failure() -> None:
    async def story(planet: Planet) -> None:
        one, (dfw, lhr) = await desk(planet)
        one.meter.used = {dfw: (500, 1024, 61), lhr: (1500, 100, 5)}
        assert await one.top("instances") == 0
        assert [row[3:] for row in one.cells[1:]] == [["1500m", "75%", "100Mi", "5%"], ["?", "?", "?", "?"]]
        one.meter.used = {}
        assert await one.top("instances") == 1
        assert [row[3:] for row in one.cells[1:]] == [["-", "-", "-", "-"]] * 2
        assert "nothing is measured" in one.err.getvalue()
        with pytest.raises(BadObject, match="-l"):
            await one.top("-l", "a in (")

    play(story)


def test_a_user_without_nodes_sees_cities_by_instances() -> None:
    async def story(planet: Planet) -> None:
        _, (dfw, _) = await desk(planet)
        binding: JsonObject = {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "viewer", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}],
        }  # fmt: skip
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
        await planet.user.call("POST", path, body=json.dumps(binding).encode())
        one = Desk(planet, planet.world.reliable(VIEWER))
        one.meter.used = {dfw: (500, 1024, 5)}
        assert await one.top() == 0
        assert one.cells[1:] == [["DFW", "1", "500m", "-", "1024Mi", "-"], ["LHR", "1", "-", "-", "-", "-"]]
        assert "nodes may not be listed" in one.err.getvalue()

    play(story)


def test_a_watch_paints_what_fits_over_what_was_there() -> None:
    async def story(planet: Planet) -> None:
        one, (dfw, _) = await desk(planet, live=True)
        one.meter.used = {dfw: (500, 1024, 5)}
        task = asyncio.create_task(one.top("instances", "-w"))
        await planet.wait(10)
        assert one.out.getvalue().count("NAME") == 1
        one.meter.used = {dfw: (700, 1024, 5)}
        await planet.wait(15)
        assert "\x1b[3A\x1b[JNAME" in one.out.getvalue()
        assert "700m" in one.out.getvalue()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    play(story)
