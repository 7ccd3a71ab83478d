"""`kubectl top`: usage reported by nodes as metrics.k8s.io."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence

import msgspec
import pytest

from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock, rfc3339_micro
from tarmac.client.targets.untyped import PODS, WORKLOADS
from tarmac.server.nodes.scraping import Scraper, samples
from tarmac.server.subresources.usagemetrics import UsageSource
from tests.cost.measuring import ADMIN, ALLOWED, Server, at_best, longest_turn
from tests.server.streams.planet import Planet

MANY_PODS = 9_000
API = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload"}


def summary(at: float, cpu: float, received: int) -> JsonObject:
    """The report of a node whose one pod has used `cpu` core-seconds."""
    time = rfc3339_micro(at)

    def usage(share: float) -> JsonObject:
        return {
            "cpu": {"time": time, "usageCoreNanoSeconds": round(cpu * share * 1e9)},
            "memory": {"time": time, "workingSetBytes": round(share * 64 * 1024 * 1024)},
        }

    pod = {
        "podRef": {"name": "web", "namespace": "default", "uid": "u"},
        "containers": [{"name": "main", "startTime": rfc3339_micro(at - 60), **usage(1)}],
        "network": {"time": time, "interfaces": [{"name": "eth0", "rxBytes": received, "txBytes": 0}]},
        **usage(1),
    }
    return {"node": usage(4), "pods": [pod]}


def scraper(world: Planet) -> Scraper:
    source: UsageSource = world.running.shared.metering.source
    assert isinstance(source, Scraper)
    return source


def pods(world: Planet) -> Sequence[JsonObject]:
    """The usage of the few pods of a small cluster, which takes one turn."""
    found = scraper(world).pods()
    assert isinstance(found, Sequence)
    return found


async def test_top_shows_what_is_used_between_two_scrapes(world: Planet) -> None:
    now = SystemClock().now()
    world.figures.shown = summary(now - 15, 10.0, 1000)
    await scraper(world).scrape()
    assert (await world.kubectl("top", "pod")).code == 1  # one measurement is no rate
    world.figures.shown = summary(now, 13.0, 31_000)
    await scraper(world).scrape()
    shown = (await world.kubectl("top", "pod", "--no-headers")).out.split()
    assert shown == [b"web", b"200m", b"64Mi"]
    shown = (await world.kubectl("top", "pod", "--containers", "--no-headers")).out.split()
    assert shown == [b"web", b"main", b"200m", b"64Mi"]
    shown = (await world.kubectl("top", "node", "--no-headers")).out.split()
    assert shown[:2] == [b"n1", b"800m"]
    (pod,) = pods(world)
    assert pod["containers"][0]["usage"]["network_receive_bytes_per_second"] == "2000"
    assert pod["window"] == "15s"


async def test_a_single_object_has_its_samples_of_the_last_minutes_on_request(world: Planet) -> None:
    now = SystemClock().now()
    for at, cpu in ((now - 15, 10.0), (now, 13.0)):
        world.figures.shown = summary(at, cpu, 0)
        await scraper(world).scrape()
    past = world.running.shared.past_usage
    await past.record()
    await past.record()
    for path, cores in (("namespaces/default/pods/web", "200m"), ("nodes/n1", "800m")):
        shown = await world.kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/{path}?history=true")
        history = json.loads(shown.out)["history"]
        assert history["interval"] == "60s"
        assert [each["usage"]["cpu"] for each in history["samples"]][-2:] == [cores, cores]
        shown = await world.kubectl("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/{path}")
        assert "history" not in json.loads(shown.out)


async def test_a_workload_has_its_ready_instances_of_the_last_minutes(world: Planet) -> None:
    workloads = world.client.resource(WORKLOADS)
    sandbox = {"containers": [{"name": "main", "image": "registry.example.com/api:1"}]}
    placement = {"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 3}}
    spec = {"template": {"spec": {"runtime": {"sandbox": sandbox}}}, "placements": [placement]}
    made = await workloads.create({**API, "metadata": {"name": "api", "namespace": "default"}, "spec": spec})
    past = world.running.shared.past_usage
    for ready in (3, 1):
        status = {**made.get("status", {}), "readyReplicas": ready, "desiredReplicas": 3}
        made = await workloads.update({**made, "status": status}, subresource="status")
        await past.record()
    path = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads/api"
    shown = json.loads((await world.kubectl("get", "--raw", f"{path}/history")).out)
    assert (shown["kind"], shown["interval"]) == ("WorkloadHistory", "60s")
    assert [(each["ready"], each["desired"]) for each in shown["samples"]] == [(3, 3), (1, 3)]
    await workloads.delete("api", "default")
    assert "not found" in (await world.kubectl("get", "--raw", f"{path}/history")).err


async def test_a_container_that_restarted_begins_anew(world: Planet) -> None:
    now = SystemClock().now()
    for at, cpu in ((now - 30, 10.0), (now - 15, 1.0)):
        world.figures.shown = summary(at, cpu, 0)
        await scraper(world).scrape()
        assert pods(world) == []
    world.figures.shown = summary(now, 2.5, 0)
    await scraper(world).scrape()
    assert pods(world)[0]["containers"][0]["usage"]["cpu"] == "100000000n"


async def test_nonsense_from_a_node_is_no_metric(world: Planet) -> None:
    world.figures.shown = {"node": {}, "pods": []}
    await scraper(world).scrape()
    assert (scraper(world).nodes(), pods(world)) == ([], [])


def test_numbers_and_times_that_nobody_can_count_with_are_left_out() -> None:
    now = 1_700_000_000.0
    lines = [
        "good 1 1700000000000",
        "huge 1e999",
        "large 1e300",
        "below -1",
        f"late 1 {'9' * 15}",
        "early 1 0",
        "short 2",
    ]
    lines += [f'long{{a="{"x" * 5000}"}} 1', f"later 1 {'9' * 5000}", "none nan", "windows 3\r"]
    every = {line.partition(" ")[0].partition("{")[0] for line in lines}
    found = [each.name for each in samples("\n".join(lines), now, every) if each is not None]
    assert found == ["good", "short", "windows"]
    assert list(samples("other 1", now, every)) == [None]


def hostile(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Make the next node's response hostile."""
    monkeypatch.setattr("tarmac.agent.http.api.resource_metrics", lambda _: "\n".join(lines))


def figures(pod: str, cpu: object, at: float | str) -> list[str]:
    labels = f'{{container="main",namespace="default",pod="{pod}"}}'
    when = at if isinstance(at, str) else f"{round(at * 1000)}"
    return [
        f"container_cpu_usage_seconds_total{labels} {cpu} {when}",
        f"container_memory_working_set_bytes{labels} 1000 {when}",
    ]


async def test_a_node_tells_nothing_of_pods_of_other_nodes(world: Planet, monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoscaler would follow it: a stolen node would scale Workloads of every tenant."""
    container = {"name": "main", "image": "busybox"}
    other: JsonObject = {"metadata": {"name": "theirs", "namespace": "default"}}
    other["spec"] = {"nodeName": "n2", "containers": [container]}
    await world.client.resource(PODS).create({"apiVersion": "v1", "kind": "Pod", **other})
    now = SystemClock().now()
    for at, cpu in ((now - 15, 1), (now, 10_000)):
        hostile(monkeypatch, *figures("theirs", cpu, at), *figures("web", cpu / 1000, at))
        await scraper(world).scrape()
    assert [each["metadata"]["name"] for each in pods(world)] == ["web"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, "999999999999999"), (2, "999999999999999")),
        ((1, "-0.015"), (1e308, "0")),
        ((1, "-0.001"), (1e17, "0")),
        ((-1e308, "-15"), (1e308, "0")),
    ],
)
async def test_extreme_figures_of_a_node_fail_nobodys_list(
    world: Planet, monkeypatch: pytest.MonkeyPatch, first: tuple[float, str], second: tuple[float, str]
) -> None:
    now = SystemClock().now()
    for value, at in (first, second):
        when = at if len(at) > 10 else f"{round((now + float(at)) * 1000)}"
        node = [f"node_cpu_usage_seconds_total {value} {when}", f"node_memory_working_set_bytes {value} {when}"]
        hostile(monkeypatch, *figures("web", value, when), *node)
        await scraper(world).scrape()
    shown = await world.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods")
    assert (shown.code, json.loads(shown.out)["items"]) == (0, [])
    shown = await world.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
    assert (shown.code, json.loads(shown.out)["items"]) == (0, [])


@pytest.mark.parametrize("unit", ["a 1\n", "container_cpu_usage_seconds_total 1\n", "x\n", 'a{b="",'])
async def test_megabytes_of_figures_hold_nobody_up(world: Planet, monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    whole = unit * (4_000_000 // len(unit))
    monkeypatch.setattr("tarmac.agent.http.api.resource_metrics", lambda _: whole)

    async def once() -> float:
        async with longest_turn() as turn:
            await scraper(world).scrape()
        return turn[0]

    assert await at_best(once) < ALLOWED


async def test_usage_of_ten_thousand_pods_is_built_in_many_turns(
    world: Planet, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, source = world.running, scraper(world)
    made = await world.client.resource(PODS).get("web", "default")
    written: list[Awaitable[object]] = []
    for number in range(MANY_PODS):
        metadata = {**made["metadata"], "name": f"p{number}", "uid": f"u{number}"}
        raw = msgspec.json.encode({**made, "metadata": metadata})
        written.append(running.store.create("core/pods", f"default/p{number}", raw))
    await asyncio.gather(*written)
    now = SystemClock().now()
    for at, cpu in ((now - 15, 1), (now, 2)):
        hostile(monkeypatch, *(line for number in range(MANY_PODS) for line in figures(f"p{number}", cpu, at)))
        await source.scrape()
    server = Server(running.server)

    async def once() -> float:
        async with longest_turn() as turn:
            reply = await server.send("GET", "/apis/metrics.k8s.io/v1beta1/pods", user=ADMIN)
        assert len(json.loads(reply.body)["items"]) == MANY_PODS
        return turn[0]

    assert await at_best(once) < ALLOWED
