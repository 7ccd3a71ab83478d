"""ExternalServices after foreign changes, a restart, or the failure of one part. With packets."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tarmac.datapath.egress import EgressState
from tarmac.datapath.linux.naming import router_name
from tests.datapath.egress_worlds import DIAL, DIAL6, KEP, ONE, SOURCE1, SOURCE2, ExternalWorld, Service, source
from tests.datapath.segment import TARGET6, Period, connected
from tests.datapath.test_adoption import Killed, Steps
from tests.datapath.test_egress_packets import BOTH_WAYS
from tests.datapath.worlds import RealWorld

pytestmark = [pytest.mark.root]


@pytest.mark.parametrize("place", ["egress namespace", "router namespace"])
async def test_deleted_tables_let_nothing_out_and_are_mended(lan: ExternalWorld, place: str) -> None:
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    segment, folder = lan.frames(), lan.frames().lab.folder
    node, namespace = (
        (3, folder / "run-3/external/netns")
        if place == "egress namespace"
        else (1, folder / "run-1/netns" / router_name(ONE))
    )
    async with connected(segment, lan.namespace("a"), DIAL, 8000) as ask:
        assert await ask() == SOURCE1
        assert await lan.world.node(node).external.mend() == []
        lan.carry(3, SOURCE1, SOURCE2)
        await lan.world.pod(node, "new", [])
        assert await lan.world.node(node).external.mend() == [], "renewals and new pods are no foreign change"
        segment.lab.command(namespace, "nft delete table inet tarmac-external")
        assert await ask(0.3) is None
        assert await lan.seen("a", hope=False) is None
        assert len(await lan.world.node(node).external.mend()) == 1
        lan.carry(3, SOURCE1, SOURCE2)
        assert await ask() == SOURCE1
        assert await lan.world.node(node).external.mend() == []


async def test_another_process_takes_it_up_and_packets_notice_nothing(lan: ExternalWorld) -> None:
    assert isinstance(lan.world, RealWorld)
    await lan.apply(BOTH_WAYS)
    lan.carry(3, SOURCE1, SOURCE2)
    segment = lan.frames()
    async with (
        connected(segment, lan.namespace("a"), DIAL, 8000) as far,
        connected(segment, lan.namespace("d"), DIAL, 8000) as near,
    ):
        assert [await far(), await near()] == [SOURCE1, SOURCE2]
        for node in (1, 3):
            await lan.world.restart(node)
            assert [await far(), await near()] == [SOURCE1, SOURCE2]
            external = lan.world.node(node).external
            external.follow({SOURCE1: "198.18.0.3", SOURCE2: "198.18.0.3"})  # from the agent's checkpoint
            assert not await external.apply(BOTH_WAYS.state(node))
            assert [await far(), await near()] == [SOURCE1, SOURCE2]
        assert lan.world.node(3).external.carried().keys() == {SOURCE1, SOURCE2}


async def test_a_part_that_the_kernel_does_not_take_harms_no_other(lan: ExternalWorld) -> None:
    await lan.apply(KEP)
    lan.carry(3, SOURCE1, SOURCE2)
    state = KEP.state(1)
    (good,) = state.forwardings
    worst = replace(good.departures[0], pod="10.128.0.9 } ; flush ruleset ; #", dialled="169.254.192.9")
    odd = replace(good.departures[0], port=0, dialled="169.254.192.9")
    bad = [replace(good, name=f"ns9/{n}", departures=(each,), arrivals=()) for n, each in enumerate((worst, odd))]
    failures = await lan.world.node(1).external.apply(replace(state, forwardings=(*bad, good)))
    assert failures.keys() == {"ns9/0", "ns9/1"}
    assert all(isinstance(each, ValueError) for each in failures.values())
    assert await lan.seen("a") == SOURCE1


async def test_two_servers_may_use_the_same_port_of_an_address_for_different_services(lan: ExternalWorld) -> None:
    first = Service([source("a", SOURCE1)], inbound=(("TCP", 80, 80),))
    second = replace(
        Service([source("b", SOURCE1)], inbound=(("TCP", 80, 80),), name="ns2/other"),
        targets={4: "192.168.122.66", 6: TARGET6},
        dialled={4: "169.254.192.8", 6: DIAL6},
    )
    for node in (3, 4, 1, 2):
        one, two = first.state(node), second.state(node)
        both = tuple(
            replace(a, exits=(*a.exits, *b.exits), entrances=(*a.entrances, *b.entrances))
            for a, b in zip(one.sources, two.sources, strict=True)
        )
        state = EgressState(one.node_address, (*one.forwardings, *two.forwardings), both)
        assert not await lan.world.node(node).external.apply(state)
    lan.carry(3, SOURCE1)
    assert await lan.called(SOURCE1, 80) == "a"
    assert await lan.called(SOURCE1, 80, stranger=True) == "b"
    assert await lan.seen("a") == SOURCE1
    assert await lan.seen("b", hope=False) is None, "it has a different service"


async def test_death_at_any_step_of_a_gateway_leaves_nothing_that_the_next_process_cannot_use(
    lan: ExternalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(lan.world, RealWorld)
    service = Service([source("d", SOURCE2)], inbound=(("TCP", 80, 80),), rates=(8_000_000, None))
    before, steps, deaths = lan.world.everything(3), Steps(monkeypatch), 0
    now = time.time()
    lan.frames().periods.append(Period(3, SOURCE2, now, now + 600))

    async def life() -> None:
        external = lan.world.node(3).external
        assert not await external.apply(service.state(3))
        external.carry({SOURCE2: 60.0})
        assert not await external.apply(replace(service, connections=5).state(3))
        external.drop([SOURCE2])
        await external.remove()

    while True:
        steps.taken, steps.last = 0, deaths
        try:
            await life()
            break
        except Killed:
            deaths += 3  # a third of all steps: all would take a minute
        finally:
            steps.last = None
        await lan.world.restart(3)
        external = lan.world.node(3).external
        assert not await external.apply(service.state(3)), f"killed before step {deaths}"
        external.carry({SOURCE2: 60.0})
        assert external.carried().keys() == {SOURCE2}
        if deaths % 9 == 0:
            assert await lan.seen("d") == SOURCE2, f"killed before step {deaths}"
        await external.remove()
        assert lan.world.everything(3) == before, f"killed before step {deaths}"
    assert deaths > 30
    await lan.world.node(3).remove_all()
    assert not list((lan.frames().lab.folder / "run-3").rglob("*")), "a killed agent left nothing either"
