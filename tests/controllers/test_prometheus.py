"""The autoscaler queries Prometheus over HTTP: the Location's own, otherwise the default one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tarmac.api.compute.names import API_VERSION
from tarmac.apps.control_plane import CONTROLLING, Address, Chosen, control_plane, local_transport
from tarmac.apps.layout import Layout
from tarmac.base.clock import ManualClock
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS, WORKLOADS
from tarmac.controllers.autoscaler.metricsclient import ServedMetrics
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager
from tarmac.controllers.metricsources import ExternalQuery, NoMetric
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import SimLocation
from tests.client.backends import ADMIN, model
from tests.controllers.test_autoscaling import DEPLOYMENTS, REQUESTS, scaled

NO_TEXT = b'{"status":"\xff"}'


class FakePrometheus:
    """Answers instant queries from a table, in Prometheus' format."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            while (await reader.readline()).strip():
                pass
            query = parse_qs(urlsplit(head.split()[1].decode()).query)["query"][0]
            body = NO_TEXT if query == "no text" else json.dumps(self._answer(query)).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            await writer.drain()
        writer.close()

    def _answer(self, query: str) -> Any:
        if query not in self.values:
            return {"status": "error", "errorType": "bad_data", "error": f"no answer to {query}"}
        result = [{"metric": {}, "value": [1763200000.1, value]} for value in self.values[query]]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}


@asynccontextmanager
async def prometheus() -> AsyncGenerator[FakePrometheus]:
    fake = FakePrometheus()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield fake


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(500):
        if await check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("did not become so")


async def test_values_are_summed_by_the_arithmetic_and_what_is_no_number_is_left_out() -> None:
    async with prometheus() as fake, model() as client:
        metrics = ServedMetrics(client)
        fake.values = {"up": ["1.5", "NaN", "2"], "nothing": [], "odd": ["NaN"]}
        assert await metrics.external(ExternalQuery("up", "dfw", fake.url)) == [1500, 2000]
        for query in ("nothing", "odd", "unknown"):
            with pytest.raises(NoMetric, match=query):
                await metrics.external(ExternalQuery(query, "dfw", fake.url))
        await metrics.close()


async def test_an_answer_that_is_no_utf_8_is_named() -> None:
    async with prometheus() as fake, model() as client:
        metrics = ServedMetrics(client)
        with pytest.raises(NoMetric, match="answers something else than Prometheus does"):
            await metrics.external(ExternalQuery("no text", "dfw", fake.url))
        await metrics.close()


async def test_a_prometheus_that_is_missing_or_away_is_named() -> None:
    async with model() as client:
        metrics = ServedMetrics(client)
        with pytest.raises(NoMetric, match="no Prometheus is named for Location dfw"):
            await metrics.external(ExternalQuery("up", "dfw", ""))
        with pytest.raises(NoMetric, match=r"127\.0\.0\.1:9 does not answer"):
            await metrics.external(ExternalQuery("up", "dfw", "http://127.0.0.1:9"))
        await metrics.close()


async def deploy(client: Client) -> None:
    """Create a Workload in Dallas, and its deployment, placed, as other controllers would."""
    await client.resource(LOCATIONS).create(location(SimLocation("dfw", "DFW", 0)))
    owner = await client.resource(WORKLOADS).create(scaled(REQUESTS))
    spec = {
        "workloadRef": {"name": "web", "uid": owner["metadata"]["uid"]},
        "placementName": "all",
        "cityCode": "DFW",
        "template": owner["spec"]["template"],
        "scaleSettings": owner["spec"]["placements"][0]["scaleSettings"],
    }
    metadata = {"name": "web-dfw", "namespace": "default"}
    deployments = client.resource(DEPLOYMENTS)
    await deployments.create(
        {"apiVersion": API_VERSION, "kind": "WorkloadDeployment", "metadata": metadata, "spec": spec}
    )
    await deployments.patch("web-dfw", {"status": {"location": {"name": "dfw"}}}, "default", subresource="status")


async def test_a_deployment_follows_a_prometheus(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    async with (
        prometheus() as everybodys,
        prometheus() as own,
        control_plane(layout, Address("127.0.0.1", 0), Chosen("serviceaccount")) as running,
    ):
        clock, query = ManualClock(), 'http:requests:rate5m{city="DFW",app="web"}'
        everybodys.values, own.values = {query: ["80", "65"]}, {query: ["200"]}
        client = Client(local_transport(running.server, ADMIN), clock)
        controllers = Client(local_transport(running.server, CONTROLLING), clock)
        deployments = client.resource(DEPLOYMENTS)

        async def wanted(count: int) -> bool:
            clock.advance(0.5)
            return (await deployments.get("web-dfw", "default"))["spec"].get("replicas") == count

        await deploy(client)
        manager = ControllerManager(controllers, "autoscaler", settings=Settings(metrics_url=everybodys.url))
        async with background(manager.run(), "controllers"):
            await until(lambda: wanted(5))
            await client.resource(LOCATIONS).patch("dfw", {"spec": {"metricsURL": own.url}})
            await until(lambda: wanted(7))
        fields = (await deployments.get("web-dfw", "default"))["metadata"]["managedFields"]
        owners = [entry["manager"] for entry in fields if "f:replicas" in entry["fieldsV1"].get("f:spec", {})]
        assert owners == ["tarmac-autoscaler"]
