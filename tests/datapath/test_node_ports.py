"""Node ports with packets: every node leads to the pods, which see the client; policies and ranges hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tarmac.api.networking.names import NODE_PORTS
from tarmac.datapath.egress import Transport
from tarmac.datapath.ingress import IngressState
from tarmac.decide.reach.marks import node_marks
from tests.datapath.ingress_worlds import Heard, IngressWorld, Way, at, state, without
from tests.datapath.segment import STRANGER, TARGET, TARGET6
from tests.datapath.test_ingress_packets import associated

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]

DOOR = 30_080
PORTS = tuple((protocol, DOOR, 81) for protocol in ("TCP", "UDP"))
DOORS = (Way(NODE_PORTS[0], ("a", "c"), PORTS), Way(NODE_PORTS[1], ("a", "c"), PORTS))  # type: ignore[arg-type]
PROTOCOLS: tuple[Transport, ...] = ("TCP", "UDP")
OWN = {node: (f"192.168.122.{node}", f"fd00:122::{node}") for node in (3, 4)}
"""Addresses of nodes on the LAN, where the client is."""


def opened(node: int, *ways: Way, local: bool = False) -> IngressState:
    """Return the state of a node with these node ports; `local`: it uses its own endpoints only."""
    made = state(node, *ways)
    addresses = tuple(
        replace(
            each,
            outside=None,
            ports=tuple(
                replace(port, nodes=tuple(own for own in port.nodes if own[0] == at(node)) if local else port.nodes)
                for port in each.ports
            ),
        )
        for each in made.addresses
    )
    return replace(made, addresses=addresses, ranges=(f"{NODE_PORTS[0]}/32", f"{NODE_PORTS[1]}/128"))


async def apply(street: IngressWorld, *ways: Way, nodes: Sequence[int] = (1, 2, 3, 4), local: bool = False) -> None:
    for node in nodes:
        assert not await street.real.node(node).ingress.apply(opened(node, *ways, local=local))


@pytest.mark.parametrize("family", [0, 1], ids=["IPv4", "IPv6"])
async def test_every_node_leads_to_all_pods_and_they_see_the_client(street: IngressWorld, family: int) -> None:
    await apply(street, *DOORS)
    client = (TARGET, TARGET6)[family]
    for node in (3, 4):
        for protocol in PROTOCOLS:
            found = {await street.called(OWN[node][family], DOOR, protocol) for _ in range(12)}
            assert found == {Heard("a", client), Heard("c", client)}, (node, protocol)
    assert await street.called(OWN[3][family], DOOR + 1, hope=False) is None
    assert await street.called(OWN[3][family], DOOR, "TCP") is not None


@pytest.mark.parametrize(("version", "client"), [(4, TARGET), (6, TARGET6)])
async def test_sctp_passes_both_ways_at_node_ports(street: IngressWorld, version: int, client: str) -> None:
    """With raw packets: this kernel has no SCTP sockets."""
    door, own = DOORS[version == 6].address, OWN[3][version == 6]
    await apply(street, *without(DOORS, door, pods=("c",), ports=(("SCTP", DOOR, 60),)))
    assert await associated(street, version, (own, DOOR), 60, client) == (own, DOOR)


async def test_with_the_policy_local_a_node_leads_to_its_own_pods_alone(street: IngressWorld) -> None:
    await apply(street, *without(DOORS, NODE_PORTS[0], pods=("d",)), local=True)
    for protocol in PROTOCOLS:
        assert await street.called(OWN[3][0], DOOR, protocol) == Heard("d", TARGET)
        assert await street.called(OWN[4][0], DOOR, protocol, hope=False) is None


async def test_nodes_and_pods_reach_node_ports_of_their_own_and_other_nodes(street: IngressWorld) -> None:
    await apply(street, *without(DOORS, NODE_PORTS[0], pods=("c",)))
    for node in (1, 3):
        for protocol in PROTOCOLS:
            for own in (at(1), at(3)):
                found = await street.called_by_node(node, own, DOOR, protocol)
                assert found is not None, (node, own, protocol)
                assert found.sandbox == "c"
    found = await street.called_by_pod("b", at(3), DOOR)
    assert found is not None
    assert found.sandbox == "c"


async def test_source_ranges_hold_at_node_ports(street: IngressWorld) -> None:
    await apply(street, *without(DOORS, NODE_PORTS[0], clients=(f"{STRANGER}/32",)))
    for protocol in PROTOCOLS:
        assert await street.called(OWN[3][0], DOOR, protocol, hope=False) is None


async def test_a_client_whose_address_means_a_pod_is_masked_at_node_ports(street: IngressWorld) -> None:
    await apply(street, *without(DOORS, NODE_PORTS[0], pods=("a",)))
    lab, inside = street.lan.lab, "10.128.0.77"
    lab.command(street.lan.target, f"ip address add {inside}/32 dev eth0")
    lab.command(lab.machine(3), f"ip route add {inside}/32 via {TARGET}")
    assert await street.called(OWN[3][0], DOOR, client=inside) == Heard("a", node_marks(at(1))[0])


async def test_without_node_ports_nothing_is_left(street: IngressWorld) -> None:
    before = street.real.everything(3)
    await apply(street, *DOORS)
    assert street.real.everything(3) != before
    await street.real.node(3).ingress.apply(IngressState(at(3)))
    assert street.real.everything(3) == before
