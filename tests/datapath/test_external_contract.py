"""External services, asked of a real and a fake datapath: which source the outside sees, and who answers it.

Requirements of the KEP, by their numbers in the specification, are named in the tests that show them.
"""

from __future__ import annotations

from dataclasses import replace

from tarmac.datapath.external import ExternalState, Forwarding
from tarmac.datapath.interface import NetworkState
from tarmac.decide.reach.allowances import Allowance, Ports, Rules
from tests.datapath.external_worlds import (
    ADDRESSES,
    DIAL,
    DIAL6,
    GATEWAYS,
    KEP,
    ONE,
    POD,
    POD6,
    RANGES,
    SOURCE1,
    SOURCE2,
    SOURCE6,
    ExternalWorld,
    Protocol,
    Service,
    source,
)
from tests.datapath.segment import TARGET, TARGET6

PROTOCOLS: tuple[Protocol, ...] = ("TCP", "UDP")
SIX = Service([source("a", SOURCE6), source("c", SOURCE6)], inbound=(("TCP", 81, 80), ("UDP", 81, 80)))


async def test_e2_e3_each_service_is_seen_as_its_own_address_wherever_its_pods_run(outside: ExternalWorld) -> None:
    await outside.apply(KEP)
    outside.carry(3, SOURCE1, SOURCE2)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", protocol=protocol) == SOURCE1
        assert await outside.seen("c", protocol=protocol) == SOURCE1
        assert await outside.seen("b", protocol=protocol) == SOURCE2, "its address is the very same as the first one's"
    assert await outside.seen("d", hope=False) is None, "no source"
    assert await outside.seen("a", port=8001, hope=False) is None, "no port of the service"


async def test_e1_pods_dial_the_target_port_and_the_server_listens_at_the_port(outside: ExternalWorld) -> None:
    await outside.apply(replace(KEP, ports=(("TCP", 700, 8001), ("UDP", 701, 8000))))
    outside.carry(3, SOURCE1, SOURCE2)
    assert await outside.seen("a", port=700) == SOURCE1
    assert await outside.seen("c", port=701, protocol="UDP") == SOURCE1
    for port in (8000, 8001):
        assert await outside.seen("a", port=port, hope=False) is None


async def test_ipv6_goes_the_same_ways(outside: ExternalWorld) -> None:
    await outside.apply(SIX)
    outside.carry(4, SOURCE6)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", DIAL6, protocol=protocol) == SOURCE6
        assert await outside.seen("c", DIAL6, protocol=protocol) == SOURCE6
        assert await outside.called(SOURCE6, 81, protocol) in ("a", "c")
    assert await outside.seen("b", DIAL6, hope=False) is None
    assert await outside.called(SOURCE6, 81, stranger=True, hope=False) is None
    outside.drop(4, SOURCE6)
    outside.carry(3, SOURCE6)
    assert await outside.seen("a", DIAL6) == SOURCE6, "the segment was told where it is now"


async def test_a_pod_on_the_gateways_own_node_goes_out_as_the_others_do(outside: ExternalWorld) -> None:
    service = Service([source("a", SOURCE1), source("d", SOURCE2)], inbound=(("TCP", 80, 80),))
    await outside.apply(service)
    for gateway in GATEWAYS:
        outside.carry(gateway, SOURCE1, SOURCE2)
        assert await outside.seen("d") == SOURCE2
        assert await outside.seen("a") == SOURCE1
        assert await outside.called(SOURCE2, 80) == "d"
        outside.drop(gateway, SOURCE1, SOURCE2)


async def test_i1_i3_the_server_and_nobody_else_reaches_each_service_at_its_own_address(outside: ExternalWorld) -> None:
    await outside.apply(replace(KEP, inbound=(("TCP", 80, 80), ("UDP", 90, 80))))
    outside.carry(3, SOURCE1, SOURCE2)
    assert await outside.called(SOURCE1, 80) in ("a", "c")
    assert await outside.called(SOURCE2, 80) == "b"
    assert await outside.called(SOURCE2, 90, "UDP") == "b"
    assert await outside.called(SOURCE2, 90, hope=False) is None, "another protocol"
    assert await outside.called(SOURCE2, 80, stranger=True, hope=False) is None
    await outside.apply(KEP)
    assert await outside.called(SOURCE2, 80, hope=False) is None, "closed again"


async def test_g1_an_address_is_used_where_it_is_carried_and_nowhere_else(outside: ExternalWorld) -> None:
    await outside.apply(KEP)
    assert await outside.seen("a", hope=False) is None, "nobody carries it yet"
    outside.carry(3, SOURCE1)
    outside.carry(4, SOURCE2)
    assert await outside.seen("a") == SOURCE1
    assert await outside.seen("b") == SOURCE2
    outside.drop(3, SOURCE1)
    assert await outside.seen("a", hope=False) is None
    assert await outside.seen("b") == SOURCE2
    outside.carry(4, SOURCE1)
    assert await outside.seen("a") == SOURCE1
    assert outside.world.node(3).external.carried() == {}
    assert outside.world.node(4).external.carried().keys() == {SOURCE1, SOURCE2}


async def test_l1_l2_sources_come_and_go(outside: ExternalWorld) -> None:
    await outside.apply(replace(KEP, sources=[source("a", SOURCE1)]))
    outside.carry(3, SOURCE1)
    assert await outside.seen("c", hope=False) is None
    await outside.apply(KEP)
    outside.carry(3, SOURCE2)
    assert await outside.seen("c") == SOURCE1
    await outside.apply(replace(KEP, sources=[source("b", SOURCE2)]))
    assert await outside.seen("a", hope=False) is None
    assert await outside.seen("b") == SOURCE2
    for node in (1, 2, 3, 4):
        assert not await outside.world.node(node).external.apply(ExternalState(f"198.18.0.{node}"))
    assert await outside.seen("b", hope=False) is None


async def test_policies_see_the_server_and_its_ports_both_ways(outside: ExternalWorld) -> None:
    ports: tuple[tuple[Protocol, int, int], ...] = (("TCP", 700, 8001), ("TCP", 701, 8000))
    await outside.apply(Service([source("a", SOURCE1)], ports, inbound=(("TCP", 90, 80),)))
    outside.carry(3, SOURCE1)
    for peer, seen, answerer in ((f"{TARGET}/32", SOURCE1, "a"), (f"{DIAL}/32", None, None), (f"{POD}/32", None, None)):
        rules = Rules(
            egress=(Allowance((peer,), ports=(Ports("TCP", 8001),)),),
            ingress=(Allowance((peer,), ports=(Ports("TCP", 80),)),),
        )
        await outside.network(1, ns1=NetworkState(ONE, 4097, 1460, RANGES, rules={POD: rules}))
        assert await outside.seen("a", port=700, hope=seen is not None) == seen
        assert await outside.seen("a", port=701, hope=False) is None
        assert await outside.called(SOURCE1, 90, hope=answerer is not None) == answerer


async def test_a_network_that_is_not_here_fails_its_own_services_only(outside: ExternalWorld) -> None:
    state = KEP.state(1)
    (good,) = state.forwardings
    lost = replace(good, name="ns3/lost", departures=(replace(good.departures[0], network="ns3/default"),), arrivals=())
    await outside.apply(KEP)
    failures = await outside.world.node(1).external.apply(replace(state, forwardings=(lost, good)))
    assert failures.keys() == {"ns3/lost"}
    assert isinstance(failures["ns3/lost"], OSError), "it may come later"
    outside.carry(3, SOURCE1)
    assert await outside.seen("a") == SOURCE1


async def test_nothing_is_left_behind(outside: ExternalWorld) -> None:
    before = outside.world.everything(3)
    await outside.apply(replace(KEP, sources=[*KEP.sources, source("d", SOURCE2)]))
    outside.carry(3, SOURCE1, SOURCE2)
    assert await outside.seen("a") == SOURCE1
    assert outside.world.everything(3) != before
    await outside.world.node(3).external.remove()
    assert outside.world.everything(3) == before
    assert await outside.seen("a", hope=False) is None


def test_the_addresses_of_the_tests_are_what_they_should_be() -> None:
    assert ADDRESSES["a"] == ADDRESSES["b"] == (POD, POD6)
    assert KEP.state(1).forwardings == (Forwarding(KEP.name, KEP.state(1).forwardings[0].departures),)
    assert {way.target for way in SIX.state(1).forwardings[0].ways} == {TARGET6}
