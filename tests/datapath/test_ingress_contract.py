"""Public addresses on a real and a fake datapath: the pod that responds to a client, and the client that it sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.datapath.egress import Transport
from tarmac.datapath.ingress import IngressState
from tarmac.datapath.interface import NetworkState
from tarmac.decide.reach.marks import node_marks
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules
from tests.datapath.egress_worlds import ADDRESSES, GATEWAYS, NETWORKS, ONE, RANGES
from tests.datapath.ingress_worlds import (
    BASIC,
    POD_PORT,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    PUBLIC7,
    Heard,
    IngressWorld,
    Way,
    at,
    state,
    without,
)
from tests.datapath.segment import TARGET, TARGET6

PROTOCOLS: tuple[Transport, ...] = ("TCP", "UDP")
BOTH = pytest.mark.parametrize(
    ("first", "second", "client"), [(PUBLIC1, PUBLIC2, TARGET), (PUBLIC6, PUBLIC7, TARGET6)], ids=["IPv4", "IPv6"]
)


@BOTH
async def test_pods_of_two_networks_with_equal_ranges_see_the_client_itself(
    ways_in: IngressWorld, first: str, second: str, client: str
) -> None:
    await ways_in.apply(*BASIC)
    ways_in.carry(3, first, second)
    for protocol in PROTOCOLS:
        found = [await ways_in.called(first, protocol=protocol) for _ in range(16)]
        assert set(found) == {Heard("a", client), Heard("c", client)}
        found = [await ways_in.called(second, protocol=protocol) for _ in range(16)]
        assert set(found) == {Heard("b", client), Heard("d", client)}, "one of them is on the gateway's own node"


@BOTH
async def test_only_open_ports_of_owned_addresses_answer(
    ways_in: IngressWorld, first: str, second: str, client: str
) -> None:
    await ways_in.apply(*BASIC)
    assert await ways_in.called(first, hope=False) is None, "no node owns it"
    ways_in.carry(3, first)
    assert await ways_in.called(first) is not None
    assert await ways_in.called(first, PORT + 1, hope=False) is None
    assert await ways_in.called(first, POD_PORT, hope=False) is None, "the pod's port is not the Service's"
    assert await ways_in.called(second, hope=False) is None
    ways_in.drop(3, first)
    assert await ways_in.called(first, hope=False) is None


async def test_a_node_that_may_not_own_an_address_does_not(ways_in: IngressWorld) -> None:
    await ways_in.apply(*BASIC)
    ways_in.world.node(1).ingress.carry({PUBLIC1: 60.0})
    assert not ways_in.world.node(1).ingress.carried()


async def test_each_gateway_serves_what_it_owns(ways_in: IngressWorld) -> None:
    await ways_in.apply(*BASIC)
    for node, other in (GATEWAYS, GATEWAYS[::-1]):
        ways_in.carry(node, PUBLIC1)
        ways_in.carry(other, PUBLIC2)
        assert (await ways_in.called(PUBLIC1) or Heard("", "")).sandbox in "ac"
        assert (await ways_in.called(PUBLIC2) or Heard("", "")).sandbox in "bd"
        assert set(ways_in.world.node(node).ingress.carried()) == {PUBLIC1}
        ways_in.drop(node, PUBLIC1)
        ways_in.drop(other, PUBLIC2)


@BOTH
async def test_permitted_clients_get_through_and_all_others_do_not(
    ways_in: IngressWorld, first: str, second: str, client: str
) -> None:
    alone, elsewhere = f"{client}/{128 if ':' in client else 32}", "fd00:123::/64" if ":" in client else "10.9.0.0/16"
    await ways_in.apply(*without(without(BASIC, first, clients=(elsewhere,)), second, clients=(elsewhere, alone)))
    ways_in.carry(3, first, second)
    for protocol in PROTOCOLS:
        assert await ways_in.called(first, protocol=protocol, hope=False) is None
        assert await ways_in.called(second, protocol=protocol) is not None
    await ways_in.apply(*without(BASIC, second, clients=()))
    assert await ways_in.called(first) is not None
    assert await ways_in.called(second, hope=False) is None, "a family without a range is closed"


@BOTH
async def test_a_client_whose_address_means_a_pod_is_masked(
    ways_in: IngressWorld, first: str, second: str, client: str
) -> None:
    inside = "fd20:1::77" if ":" in client else "10.128.0.77"
    if ways_in.segment is not None:
        target, length = ways_in.segment.target, "/128 dev eth0 nodad" if ":" in client else "/32 dev eth0"
        ways_in.segment.lab.command(target, f"ip address add {inside}{length}")
        ways_in.segment.lab.settle(target, [inside] if ":" in inside else [])
    routed = [replace(each, router=TARGET6 if ":" in each.address else TARGET) for each in BASIC]
    await ways_in.apply(*without(without(routed, first, pods=("a",)), second, pods=("d",)))
    ways_in.carry(3, first, second)
    for protocol in PROTOCOLS:
        mask = node_marks(at(1))[":" in client]
        assert await ways_in.called(first, protocol=protocol, client=inside) == Heard("a", mask)
        assert await ways_in.called(first, protocol=protocol) == Heard("a", client)
        mask = node_marks(at(3))[":" in client]
        assert await ways_in.called(second, protocol=protocol, client=inside) == Heard("d", mask), "the gateway's node"


@BOTH
async def test_nodes_are_seen_as_nodes(ways_in: IngressWorld, first: str, second: str, client: str) -> None:
    await ways_in.apply(*without(without(BASIC, first, pods=("a",)), second, pods=("d",)))
    for protocol in PROTOCOLS:
        for node in (1, 2, 3):
            found = await ways_in.called_by_node(node, first, protocol=protocol)
            assert found == Heard("a", node_marks(at(1))[":" in client]), f"from node {node}"
        assert await ways_in.called_by_node(2, second, protocol=protocol) == Heard(
            "d", node_marks(at(3))[":" in client]
        )
    assert await ways_in.called_by_node(2, first, PORT + 1, hope=False) is None


async def test_source_ranges_hold_for_nodes_by_their_own_address(ways_in: IngressWorld) -> None:
    await ways_in.apply(*without(BASIC, PUBLIC1, clients=(f"{at(2)}/32", f"{TARGET}/32")))
    ways_in.carry(3, PUBLIC1)
    assert await ways_in.called(PUBLIC1) is not None
    assert await ways_in.called_by_node(2, PUBLIC1) is not None
    assert await ways_in.called_by_node(1, PUBLIC1, hope=False) is None


async def test_policies_see_the_client_and_the_pods_port(ways_in: IngressWorld) -> None:
    await ways_in.apply(*without(BASIC, PUBLIC1, pods=("a",)))
    ways_in.carry(3, PUBLIC1)
    for allowed, port, answer in (
        (f"{TARGET}/32", POD_PORT, Heard("a", TARGET)),
        (f"{TARGET}/32", PORT, None),
        ("192.168.122.66/32", POD_PORT, None),
    ):
        rules = {ADDRESSES["a"][0]: Rules(ingress=(Allowance((allowed,), (), (PortRange("TCP", port, port),)),))}
        await ways_in.network(1, ns1=NetworkState(ONE, NETWORKS[ONE], 1460, RANGES, rules=rules))
        assert await ways_in.called(PUBLIC1, hope=answer is not None) == answer


async def test_with_affinity_all_connections_of_a_client_go_to_one_pod(ways_in: IngressWorld) -> None:
    await ways_in.apply(*without(BASIC, PUBLIC1, affinity=True))
    ways_in.carry(3, PUBLIC1)
    assert len({await ways_in.called(PUBLIC1) for _ in range(12)}) == 1
    ways_in.drop(3, PUBLIC1)
    ways_in.carry(4, PUBLIC1)


async def test_a_port_without_endpoints_refuses_nodes_and_ignores_clients_outside(ways_in: IngressWorld) -> None:
    await ways_in.apply(*without(BASIC, PUBLIC1, pods=()))
    ways_in.carry(3, PUBLIC1)
    assert await ways_in.called(PUBLIC1, hope=False) is None
    assert await ways_in.called_by_node(1, PUBLIC1, hope=False) is None


async def test_a_missing_network_fails_its_addresses_and_no_others(ways_in: IngressWorld) -> None:
    missing = Way(PUBLIC1, ("a",))
    wanted = state(1, missing, *BASIC[1:])
    first = wanted.addresses[0]
    ports = tuple(
        replace(port, backends=tuple(replace(each, network="ns9/default") for each in port.backends))
        for port in first.ports
    )
    addresses = (replace(first, ports=ports), *wanted.addresses[1:])
    failures = await ways_in.world.node(1).ingress.apply(replace(wanted, addresses=addresses))
    assert set(failures) == {PUBLIC1}
    assert "ns9/default" in str(failures[PUBLIC1])
    await ways_in.apply(missing, *BASIC[1:], nodes=(2, 3, 4))
    ways_in.carry(3, PUBLIC2)
    assert (await ways_in.called(PUBLIC2) or Heard("", "")).sandbox in "bd"


async def test_without_addresses_nothing_is_left(ways_in: IngressWorld) -> None:
    before = [ways_in.world.everything(node) for node in (1, 3)]
    await ways_in.apply(*BASIC)
    assert [ways_in.world.everything(node) for node in (1, 3)] != before or isinstance(before[0], tuple)
    ways_in.carry(3, PUBLIC1)
    await ways_in.world.node(1).ingress.apply(IngressState(at(1)))
    await ways_in.world.node(3).ingress.remove()
    assert [ways_in.world.everything(node) for node in (1, 3)] == before


@pytest.mark.parametrize(("address", "router"), [(PUBLIC1, TARGET), (PUBLIC6, TARGET6)])
async def test_a_gateway_connects_where_the_segment_has_a_router(
    ways_in: IngressWorld, address: str, router: str
) -> None:
    await ways_in.apply(Way(address, ("a", "c"), router=router))
    for node in GATEWAYS:
        await ways_in.world.node(node).ingress.connect(address, PORT, 5.0)


async def test_a_node_connects_to_an_address_that_it_does_not_own(ways_in: IngressWorld) -> None:
    await ways_in.apply(*BASIC)
    for node in (1, 3):
        for address in (PUBLIC1, PUBLIC6):
            await ways_in.world.node(node).ingress.connect(address, PORT, 5.0)
    with pytest.raises(OSError):
        await ways_in.world.node(3).ingress.connect(PUBLIC1, PORT + 1, 2.0)
    await ways_in.apply(*without(BASIC, PUBLIC1, pods=()))
    with pytest.raises(OSError):
        await ways_in.world.node(3).ingress.connect(PUBLIC1, PORT, 2.0)
