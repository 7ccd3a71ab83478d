"""ExternalServices on a real and a fake datapath: the source that the outside sees, and the pod that responds to it.

Requirements of the KEP, by their numbers in the specification, are named in the tests that show them: in both address
families, over TCP and UDP. SCTP, for which this kernel has no sockets, is tested with packets only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.datapath.egress import EgressState, Forwarding
from tarmac.datapath.interface import NetworkState
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules
from tests.datapath.egress_worlds import (
    ADDRESSES,
    DIAL,
    GATEWAYS,
    IPV4,
    IPV6,
    KEP,
    ONE,
    POD,
    POD6,
    RANGES,
    SOURCE1,
    SOURCE2,
    ExternalWorld,
    Family,
    Protocol,
    Service,
    source,
)
from tests.datapath.segment import TARGET, TARGET6

PROTOCOLS: tuple[Protocol, ...] = ("TCP", "UDP")
BOTH = pytest.mark.parametrize("of", [IPV4, IPV6], ids=["IPv4", "IPv6"])


@BOTH
async def test_e1_pods_dial_the_target_port_and_the_server_listens_at_the_port(
    outside: ExternalWorld, of: Family
) -> None:
    await outside.apply(replace(of.kep, ports=(("TCP", 700, 8001), ("UDP", 701, 8000))))
    outside.carry(3, of.first, of.second)
    assert await outside.seen("a", of.dial, 700) == of.first
    assert await outside.seen("c", of.dial, 701, "UDP") == of.first
    for port in (8000, 8001):
        for protocol in PROTOCOLS:
            assert await outside.seen("a", of.dial, port, protocol, hope=False) is None


@BOTH
async def test_e2_only_pods_of_the_listed_services_get_through(outside: ExternalWorld, of: Family) -> None:
    await outside.apply(replace(of.kep, sources=of.kep.sources[:1]))
    outside.carry(3, of.first)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", of.dial, protocol=protocol) == of.first
        for sandbox in ("b", "c", "d"):  # the same address, the same Network, a gateway's own node
            assert await outside.seen(sandbox, of.dial, protocol=protocol, hope=False) is None
        assert await outside.seen("a", of.dial, 8001, protocol, hope=False) is None, "no port of the service"


@BOTH
async def test_e3_each_service_is_seen_as_its_own_address_wherever_its_pods_run(
    outside: ExternalWorld, of: Family
) -> None:
    await outside.apply(of.kep)
    outside.carry(3, of.first, of.second)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", of.dial, protocol=protocol) == of.first
        assert await outside.seen("c", of.dial, protocol=protocol) == of.first
        assert await outside.seen("b", of.dial, protocol=protocol) == of.second, "the first pod's address again"


async def test_a_pod_on_the_gateways_own_node_goes_out_as_the_others_do(outside: ExternalWorld) -> None:
    service = Service([source("a", SOURCE1), source("d", SOURCE2)], inbound=(("TCP", 80, 80),))
    await outside.apply(service)
    for gateway in GATEWAYS:
        outside.carry(gateway, SOURCE1, SOURCE2)
        assert await outside.seen("d") == SOURCE2
        assert await outside.seen("a") == SOURCE1
        assert await outside.called(SOURCE2, 80) == "d"
        outside.drop(gateway, SOURCE1, SOURCE2)


@BOTH
async def test_i1_the_server_reaches_each_service_at_its_own_address_and_port(
    outside: ExternalWorld, of: Family
) -> None:
    await outside.apply(replace(of.kep, inbound=(("TCP", 80, 80), ("UDP", 80, 80), ("UDP", 90, 80))))
    outside.carry(3, of.first, of.second)
    for protocol in PROTOCOLS:
        assert await outside.called(of.first, 80, protocol) in ("a", "c")
        assert await outside.called(of.second, 80, protocol) == "b"
    assert await outside.called(of.second, 90, "UDP") == "b", "the Service's port, not the pod's"
    assert await outside.called(of.second, 90, hope=False) is None, "another protocol"
    assert await outside.called(of.second, 8000, hope=False) is None, "a port of the ExternalService is not open"
    await outside.apply(of.kep)
    for protocol in PROTOCOLS:
        assert await outside.called(of.second, 80, protocol, hope=False) is None, "closed again"


@BOTH
async def test_i3_nobody_but_the_server_reaches_a_service(outside: ExternalWorld, of: Family) -> None:
    await outside.apply(replace(of.kep, inbound=(("TCP", 80, 80), ("UDP", 80, 80))))
    outside.carry(3, of.first, of.second)
    for protocol in PROTOCOLS:
        assert await outside.called(of.second, 80, protocol) == "b"
        for address in (of.first, of.second):
            assert await outside.called(address, 80, protocol, stranger=True, hope=False) is None


@BOTH
async def test_l1_the_way_is_there_with_the_service_and_gone_without_it(outside: ExternalWorld, of: Family) -> None:
    assert await outside.seen("b", of.dial, hope=False) is None
    await outside.apply(of.kep)
    outside.carry(3, of.first, of.second)
    for protocol in PROTOCOLS:
        assert await outside.seen("b", of.dial, protocol=protocol) == of.second
    for node in (1, 2, 3, 4):
        assert not await outside.world.node(node).external.apply(EgressState(f"198.18.0.{node}"))
    for protocol in PROTOCOLS:
        assert await outside.seen("b", of.dial, protocol=protocol, hope=False) is None


@BOTH
async def test_l2_pods_come_and_go(outside: ExternalWorld, of: Family) -> None:
    await outside.apply(replace(of.kep, sources=of.kep.sources[:1]))
    outside.carry(3, of.first)
    for protocol in PROTOCOLS:
        assert await outside.seen("c", of.dial, protocol=protocol, hope=False) is None
    await outside.apply(of.kep)
    outside.carry(3, of.second)
    for protocol in PROTOCOLS:
        assert await outside.seen("c", of.dial, protocol=protocol) == of.first
    await outside.apply(replace(of.kep, sources=of.kep.sources[2:]))
    for protocol in PROTOCOLS:
        assert await outside.seen("a", of.dial, protocol=protocol, hope=False) is None
        assert await outside.seen("b", of.dial, protocol=protocol) == of.second


@BOTH
async def test_g1_an_address_is_used_where_it_is_carried_and_nowhere_else(outside: ExternalWorld, of: Family) -> None:
    await outside.apply(replace(of.kep, inbound=(("TCP", 80, 80), ("UDP", 80, 80))))
    assert await outside.seen("a", of.dial, hope=False) is None, "no node carries it yet"
    outside.carry(3, of.first)
    outside.carry(4, of.second)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", of.dial, protocol=protocol) == of.first
        assert await outside.seen("b", of.dial, protocol=protocol) == of.second
        assert await outside.called(of.second, 80, protocol) == "b", "responses take the same path back"
    outside.drop(3, of.first)
    assert await outside.seen("a", of.dial, hope=False) is None
    assert await outside.called(of.first, 80, hope=False) is None
    assert await outside.seen("b", of.dial) == of.second
    outside.carry(4, of.first)
    for protocol in PROTOCOLS:
        assert await outside.seen("a", of.dial, protocol=protocol) == of.first
        assert await outside.called(of.first, 80, protocol) in ("a", "c"), "the segment learned the new gateway"
    assert outside.world.node(3).external.carried() == {}
    assert outside.world.node(4).external.carried().keys() == {of.first, of.second}


async def test_policies_see_the_server_and_its_ports_both_ways(outside: ExternalWorld) -> None:
    ports: tuple[tuple[Protocol, int, int], ...] = (("TCP", 700, 8001), ("TCP", 701, 8000))
    await outside.apply(Service([source("a", SOURCE1)], ports, inbound=(("TCP", 90, 80),)))
    outside.carry(3, SOURCE1)
    for peer, seen, answerer in ((f"{TARGET}/32", SOURCE1, "a"), (f"{DIAL}/32", None, None), (f"{POD}/32", None, None)):
        rules = Rules(
            egress=(Allowance((peer,), ports=(PortRange("TCP", 8001),)),),
            ingress=(Allowance((peer,), ports=(PortRange("TCP", 80),)),),
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
    assert isinstance(failures["ns3/lost"], OSError), "the Network may appear later"
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
    assert {way.target for way in IPV6.kep.state(1).forwardings[0].ways} == {TARGET6}
