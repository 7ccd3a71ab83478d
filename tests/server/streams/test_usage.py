"""`kubectl top`: what nodes tell, made into metrics.k8s.io."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock, rfc3339_micro
from tarmac.server.nodes.exposition import samples
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.subresources.metrics import UsageSource
from tests.server.streams.planet import Planet


def summary(at: float, cpu: float, received: int) -> JsonObject:
    """A node whose one pod has used `cpu` core-seconds."""
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


async def test_top_shows_what_is_used_between_two_scrapes(world: Planet) -> None:
    now = SystemClock().now()
    world.figures.shown = summary(now - 15, 10.0, 1000)
    await scraper(world).scrape()
    assert (await world.kubectl("top", "pod")).code == 1  # one measurement tells no rate
    world.figures.shown = summary(now, 13.0, 31_000)
    await scraper(world).scrape()
    shown = (await world.kubectl("top", "pod", "--no-headers")).out.split()
    assert shown == [b"web", b"200m", b"64Mi"]
    shown = (await world.kubectl("top", "pod", "--containers", "--no-headers")).out.split()
    assert shown == [b"web", b"main", b"200m", b"64Mi"]
    shown = (await world.kubectl("top", "node", "--no-headers")).out.split()
    assert shown[:2] == [b"n1", b"800m"]
    (pod,) = scraper(world).pods()
    assert pod["containers"][0]["usage"]["network_receive_bytes_per_second"] == "2000"
    assert pod["window"] == "15s"


async def test_a_container_that_restarted_begins_anew(world: Planet) -> None:
    now = SystemClock().now()
    for at, cpu in ((now - 30, 10.0), (now - 15, 1.0)):
        world.figures.shown = summary(at, cpu, 0)
        await scraper(world).scrape()
        assert scraper(world).pods() == []
    world.figures.shown = summary(now, 2.5, 0)
    await scraper(world).scrape()
    assert scraper(world).pods()[0]["containers"][0]["usage"]["cpu"] == "100000000n"


async def test_nonsense_from_a_node_is_no_metric(world: Planet) -> None:
    world.figures.shown = {"node": {}, "pods": []}
    await scraper(world).scrape()
    assert (scraper(world).nodes(), scraper(world).pods()) == ([], [])


def test_numbers_that_nobody_can_count_with_are_left_out() -> None:
    lines = ["good 1 1700000000000", "huge 1e999", f"late 1 {'9' * 5000}", "none nan", "short 2"]
    assert [each.name for each in samples("\n".join(lines), 5.0)] == ["good", "short"]
