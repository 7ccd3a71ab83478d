"""Documents of the node API about the node and its pods."""

from __future__ import annotations

import json

import aiohttp
import pytest

from tests.agent.http.stage import Stage
from tests.support.exposition import series

TIME = "2026-11-15T12:00:00Z"


def usage(seconds: float, memory: int) -> dict[str, object]:
    cpu = {"time": TIME, "usageCoreNanoSeconds": round(seconds * 1e9)}
    return {"cpu": cpu, "memory": {"time": TIME, "workingSetBytes": memory}}


async def read(node: Stage, web: aiohttp.ClientSession, path: str) -> str:
    async with web.get(node.url + path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.text()


async def test_pods_as_they_should_be_and_as_they_run(node: Stage, web: aiohttp.ClientSession) -> None:
    listed = json.loads(await read(node, web, "/pods"))
    assert (listed["kind"], listed["items"]) == ("PodList", node.pods.known)
    (running,) = json.loads(await read(node, web, "/runningpods/"))["items"]
    assert running["metadata"] == {"name": "web", "namespace": "default", "uid": "u1"}
    assert [each["name"] for each in running["spec"]["containers"]] == ["main"]


async def test_health_configuration_and_own_metrics(node: Stage, web: aiohttp.ClientSession) -> None:
    assert await read(node, web, "/healthz") == "ok"
    assert json.loads(await read(node, web, "/configz")) == {"kubeletconfig": {"port": 10250}}
    assert await read(node, web, "/metrics") == "agent_up 1\n"


async def test_figures_in_full_and_for_metrics_servers(node: Stage, web: aiohttp.ClientSession) -> None:
    container = {"name": "main", "startTime": TIME, **usage(1.5, 2048)}
    pod = {"podRef": {"name": "web", "namespace": "default", "uid": "u1"}, "containers": [container], **usage(2, 4096)}
    pod["network"] = {
        "time": TIME,
        "interfaces": [{"name": "a", "rxBytes": 5, "txBytes": 7}, {"name": "b", "rxBytes": 1}],
    }
    node.figures.shown = {"node": usage(100.25, 1 << 30), "pods": [pod]}
    assert json.loads(await read(node, web, "/stats/summary")) == node.figures.shown
    text = await read(node, web, "/metrics/resource")
    assert series(text)
    shown = text.splitlines()
    samples = [line for line in shown if not line.startswith("#")]
    at = 1794744000000
    place = 'namespace="default",pod="web"'
    assert samples == [
        f'container_cpu_usage_seconds_total{{container="main",{place}}} 1.5 {at}',
        f'container_memory_working_set_bytes{{container="main",{place}}} 2048 {at}',
        f'container_start_time_seconds{{container="main",{place}}} 1794744000',
        f"node_cpu_usage_seconds_total 100.25 {at}",
        f"node_memory_working_set_bytes 1073741824 {at}",
        f"pod_cpu_usage_seconds_total{{{place}}} 2 {at}",
        f"pod_memory_working_set_bytes{{{place}}} 4096 {at}",
        f"pod_network_receive_bytes_total{{{place}}} 6 {at}",
        f"pod_network_transmit_bytes_total{{{place}}} 7 {at}",
        "resource_scrape_error 0",
    ]
    assert "# TYPE node_cpu_usage_seconds_total counter" in shown


async def test_a_command_can_be_run_to_its_end(node: Stage, web: aiohttp.ClientSession) -> None:
    async with web.post(f"{node.url}/run/default/web/main?cmd=echo%20hello") as answer:
        assert (answer.status, await answer.text()) == (200, "hello\n")
    async with web.post(f"{node.url}/run/default/web/main?cmd=false") as answer:
        assert (answer.status, await answer.text()) == (500, "command terminated with exit code 1")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nothing", 404),
        ("GET", "/stats/other", 404),
        ("GET", "/metrics/cadvisor", 404),
        ("GET", "/run/default/web/main", 405),
        ("POST", "/pods", 405),
        ("DELETE", "/containerLogs/default/web/main", 405),
        ("POST", "/run/default/none/main", 404),
    ],
)
async def test_unknown_paths_and_methods_are_refused(
    node: Stage, web: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with web.request(method, node.url + path) as answer:
        assert answer.status == status
