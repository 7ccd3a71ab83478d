"""Traffic metrics of addresses: collected on a scrape, and at most once per interval."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.egress.traffic import FRESH, TrafficMetrics
from tarmac.base.clock import ManualClock
from tarmac.datapath.egress import GatewayTraffic, ServiceTraffic
from tarmac.datapath.fake import FakeDatapath, FakeUnderlay
from tarmac.datapath.fakeegress import BYTES, FakeEgressDatapath
from tests.agent.egress.nodes import SOURCE, TARGET, planet

SERVICE = {"namespace": "default", "externalservice": "db", "sourceip": SOURCE}


def labels(direction: str) -> frozenset[tuple[str, str]]:
    return frozenset({**SERVICE, "direction": direction}.items())


class Kernel(FakeEgressDatapath):
    def __init__(self) -> None:
        super().__init__(FakeDatapath(FakeUnderlay()))
        self.asked, self.broken = 0, False

    async def carriage(self) -> GatewayTraffic:
        self.asked += 1
        if self.broken:
            raise OSError("no buffer space")
        return GatewayTraffic((ServiceTraffic("team/db", SOURCE, False, 1, self.asked, 9),), {SOURCE: 0.5})


async def test_the_kernel_is_asked_seldom_and_never_where_no_address_can_be_carried() -> None:
    kernel, clock, is_candidate = Kernel(), ManualClock(), [False]
    figures = TrafficMetrics(kernel, lambda: is_candidate[0], clock)

    async def total() -> list[float]:
        await figures.refresh()
        return [value for name, _, _, value in figures.samples() if name == "tarmac_external_connections_total"]

    assert (await total(), kernel.asked) == ([], 0)
    is_candidate[0] = True
    assert [await total() for _ in range(3)] == [[1.0]] * 3
    clock.advance(FRESH)
    assert await total() == [2.0]
    clock.advance(FRESH)
    kernel.broken = True
    assert (await total(), kernel.asked) == ([2.0], 3), "a counter keeps its value"
    is_candidate[0] = False
    assert await total() == []


async def test_a_gateway_tells_of_its_connections_and_other_nodes_of_none(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        await world.prepare()
        gateway = await world.until_ready()
        for node in world.nodes.values():
            node.datapath.external._began.clear()
            node.datapath.external._live.clear()
        assert world.seen() == world.seen() == SOURCE
        assert world.nodes[gateway].datapath.external.answers(TARGET, SOURCE, 80) == "web-1"
        for name, node in world.nodes.items():
            assert node.external is not None
            await node.external.refresh()
            told = {(each, frozenset(of.items())): value for each, _, of, value in node.external.metrics()}
            mine = {key: value for key, value in told.items() if key[1] >= SERVICE.items()}
            if name != gateway:
                assert not mine
                continue
            assert mine == {
                ("tarmac_external_connections", labels("out")): 2,
                ("tarmac_external_connections_total", labels("out")): 2,
                ("tarmac_external_bytes_total", labels("out")): 2 * BYTES,
                ("tarmac_external_connections", labels("in")): 1,
                ("tarmac_external_connections_total", labels("in")): 1,
                ("tarmac_external_bytes_total", labels("in")): BYTES,
            }
            assert told["tarmac_gateway_source_port_use_ratio", frozenset({("sourceip", SOURCE)})] > 0
