"""Traffic from nodes into networks: through node ports, and from nodes to services."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from tarmac.agent.ingresslink import link_of_connection
from tarmac.datapath.interface import HostPort, NetworkState, NodeNetworks, Remote
from tarmac.decide.reach.marks import NODES, node_marks
from tarmac.decide.reach.policyrules import Allowance, Rules, ServiceFrontend
from tests.datapath.test_datapath_contract import A6, B6, FAR, FAR6, NET, PLAIN, RANGES, A, B, two_pods
from tests.datapath.worlds import RealWorld, World, nic, one_network
from tests.support.agent_process import until

NODE, NODE6 = "198.18.0.1", "fd99::1"
PORTS = (
    HostPort("TCP", 8080, (B, 80)),
    HostPort("TCP", 8080, (B6, 80)),
    HostPort("UDP", 8053, (B, 81)),
    HostPort("TCP", 9090, (A, 80), "127.0.0.1"),
    HostPort("TCP", 9090, (B, 80), NODE),
)
PUBLISHED = replace(PLAIN, host_ports=PORTS)


class TestPortsOfTheNode:
    @pytest.mark.parametrize("address", [NODE, NODE6])
    async def test_lead_to_a_pod(self, world: World, address: str) -> None:
        await two_pods(world, PUBLISHED)
        assert await world.enters(1, address, 8080, outside=True) == "b"
        assert await world.enters(1, address, 8080) == "b", "the node's own connections"
        assert await world.enters(1, address, 8081, hope=False) is None

    async def test_a_node_port_serves_only_its_protocol(self, world: World) -> None:
        await two_pods(world, PUBLISHED)
        assert await world.enters(1, NODE, 8053, "UDP", outside=True) == "b"
        assert await world.enters(1, NODE, 8053, "TCP", outside=True, hope=False) is None

    async def test_may_be_at_one_address_only(self, world: World) -> None:
        await two_pods(world, PUBLISHED)
        assert await world.enters(1, "127.0.0.1", 9090) == "a"
        assert await world.enters(1, NODE, 9090) == "b"
        assert await world.enters(1, NODE, 9090, outside=True) == "b"

    async def test_go_with_their_pod(self, world: World) -> None:
        await two_pods(world, PUBLISHED)
        await world.node(1).apply(one_network(PLAIN))
        assert await world.enters(1, NODE, 8080, outside=True, hope=False) is None

    async def test_keep_to_policies_which_see_who_comes(self, world: World) -> None:
        only_nine = Rules(ingress=(Allowance(peers=("198.18.0.9/32",)),))
        await two_pods(world, replace(PUBLISHED, rules={B: only_nine}))
        assert await world.enters(1, NODE, 8080, outside=True) == "b"
        assert await world.enters(1, NODE, 8080, hope=False) is None


def with_service(*backends: str) -> NetworkState:
    """Return a network with a service at a cluster address of each family, for the node too."""
    ports = tuple(
        ServiceFrontend("fd00:96::9" if ":" in backend else "10.96.0.9", "TCP", 8080, ((backend, 80),))
        for backend in backends
    )
    return replace(PLAIN, services=ports, from_node=tuple(port.address for port in ports))


def nodes(world: World) -> None:
    """Give nodes a default route."""
    if isinstance(world, RealWorld):
        for number in (1, 2):
            host = world.lab.machine(number)
            world.lab.command(host, "ip route add default via 198.18.0.9")


async def far_pod(world: World, state: NetworkState, rules: dict[str, Rules] | None = None) -> None:
    """Create a network on node 1 without a pod, and the pod `far` on node 2."""
    prefixes = (f"{FAR}/32", f"{FAR6}/128")
    await world.node(1).apply(one_network(replace(state, remotes=(Remote("198.18.0.2", prefixes),))))
    there = replace(PLAIN, remotes=(Remote(NODE, ()),), rules=rules or {})
    await world.node(2).apply(NodeNetworks(("198.18.0.2",), (there,)))
    await world.pod(2, "far", [nic(NET, f"{FAR}/20", f"{FAR6}/64")])
    await world.serve("far", 80)


class TestTheNode:
    @pytest.mark.parametrize(("service", "backend"), [("10.96.0.9", B), ("fd00:96::9", B6)])
    async def test_reaches_services_in_its_networks(self, world: World, service: str, backend: str) -> None:
        nodes(world)
        await two_pods(world, with_service(backend))
        assert await world.enters(1, service, 8080) == "b"
        assert await world.enters(1, service, 8081, hope=False) is None

    @pytest.mark.parametrize(("service", "backend"), [("10.96.0.9", FAR), ("fd00:96::9", FAR6)])
    async def test_reaches_backends_on_other_nodes(self, world: World, service: str, backend: str) -> None:
        nodes(world)
        await far_pod(world, with_service(backend))
        assert await world.enters(1, service, 8080) == "far"

    async def test_is_held_to_policies_here_and_there(self, world: World) -> None:
        nodes(world)
        closed = Rules(ingress=(Allowance(peers=("10.0.0.0/8",)),))
        await two_pods(world, replace(with_service(B), rules={B: closed}))
        assert await world.enters(1, "10.96.0.9", 8080, hope=False) is None
        await far_pod(world, with_service(FAR), {FAR: closed})
        assert await world.enters(1, "10.96.0.9", 8080, hope=False) is None
        await far_pod(world, with_service(FAR), {FAR: Rules(ingress=(Allowance(peers=NODES),))})
        assert await world.enters(1, "10.96.0.9", 8080) == "far"

    async def test_leads_nobody_else_there(self, world: World) -> None:
        nodes(world)
        await two_pods(world, with_service(B))
        if isinstance(world, RealWorld):
            world.lab.command(world.lab.machine(9), f"ip route add 10.96.0.0/12 via {NODE}")
        assert await world.enters(1, "10.96.0.9", 8080, outside=True, hope=False) is None


OTHER = NetworkState("bank/default", 4098, 1460, ranges=RANGES)


@pytest.mark.root
class TestWithPackets:
    async def test_pods_of_every_network_reach_a_port_of_the_node(self, real: RealWorld) -> None:
        await real.node(1).apply(NodeNetworks((NODE,), (PUBLISHED, OTHER)))
        await real.pod(1, "stranger", [nic("bank/default", f"{B}/20", f"{B6}/64", vni=4098)])
        await real.pod(1, "a", [nic(NET, f"{A}/20", f"{A6}/64")])
        await real.pod(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
        await real.serve("b", 80)
        for caller in ("stranger", "a", "b"):
            assert await real.reaches(caller, NODE, 8080) == "b", caller
            assert await real.reaches(caller, NODE6, 8080) == "b", caller

    async def test_the_default_route_of_the_node_stays(self, real: RealWorld) -> None:
        """Hosts of `tarmac up` get theirs with the protocol number of the datapath's routes."""
        host = real.lab.machine(1)
        real.lab.command(host, "ip route add default via 198.18.0.9 proto 116")
        await real.node(1).apply(NodeNetworks((NODE,), (with_service(B),)))
        await real.node(1).apply(NodeNetworks((NODE,), (PLAIN,)))
        assert "via 198.18.0.9" in real.lab.command(host, "ip route show default")
        assert "10.96.0.9" not in real.lab.command(host, "ip route")

    async def test_pods_do_not_get_into_other_networks_by_the_nodes_services(self, real: RealWorld) -> None:
        await real.node(1).apply(NodeNetworks((NODE,), (with_service(B), OTHER)))
        await real.pod(1, "stranger", [nic("bank/default", f"{A}/20", vni=4098)])
        await real.pod(1, "b", [nic(NET, f"{B}/20")])
        await real.serve("b", 80)
        assert await real.reaches("stranger", "10.96.0.9", 8080, hope=False) is None

    async def test_a_service_that_leads_to_another_leads_nobody_into_its_network(self, real: RealWorld) -> None:
        crooked = ServiceFrontend("10.96.0.66", "TCP", 80, (("10.96.0.9", 8080),))
        await real.node(1).apply(NodeNetworks((NODE,), (with_service(B), OTHER), (crooked,)))
        await real.pod(1, "stranger", [nic("bank/default", f"{A}/20", vni=4098)])
        await real.pod(1, "b", [nic(NET, f"{B}/20")])
        await real.serve("b", 80)
        real.lab.command(real.lab.machine(9), f"ip route add 10.96.0.0/12 via {NODE}")
        assert await real.enters(1, "10.96.0.66", 80, outside=True, hope=False) is None
        assert await real.reaches("stranger", "10.96.0.66", 80, hope=False) is None
        nodes(real)
        assert await real.enters(1, "10.96.0.66", 80) == "b", "the node itself may go there"

    async def test_an_outside_host_with_a_pods_address_is_not_treated_as_the_pod(self, real: RealWorld) -> None:
        only_a = {B: Rules(ingress=(Allowance(peers=(f"{A}/32",)),))}
        await two_pods(real, replace(PUBLISHED, rules=only_a))
        outside = real.lab.machine(9)
        real.lab.command(outside, f"ip address add {A}/32 dev eth0")
        real.lab.command(real.lab.machine(1), f"ip route add {A}/32 via 198.18.0.9")
        real.lab.command(outside, f"ip route add {NODE}/32 dev eth0 src {A}")
        assert await real.enters(1, NODE, 8080, outside=True, hope=False) is None
        await real.node(1).apply(one_network(PUBLISHED))
        assert await real.enters(1, NODE, 8080, outside=True) == "b", "it is served like the node itself"

    async def test_ports_go_on_while_nobody_looks_after_them_and_are_taken_up(self, real: RealWorld) -> None:
        await two_pods(real, PUBLISHED)
        successor = await real.restart(1)
        assert await real.enters(1, NODE, 8080, outside=True) == "b"
        await successor.apply(one_network(replace(PLAIN, host_ports=PORTS[:1])))
        assert await real.enters(1, NODE, 8080, outside=True) == "b"
        assert await real.enters(1, NODE6, 8080, outside=True, hope=False) is None

    async def test_datagrams_that_went_nowhere_before_come_to_the_pod(self, real: RealWorld) -> None:
        await two_pods(real)
        with real.lab.socket(real.lab.machine(9), socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect((NODE, 8053))
            until(lambda: _refused(client))  # repeatedly: the kernel limits the rate of errors
            await real.node(1).apply(one_network(PUBLISHED))
            until(lambda: not _refused(client))
            async with asyncio.timeout(5):
                assert await asyncio.get_running_loop().sock_recv(client, 100) == b"b"

    async def test_addresses_that_stand_for_nodes_are_not_looked_for_outside(self, real: RealWorld) -> None:
        await two_pods(real)
        nodes(real)
        mark, outside = node_marks(NODE)[0], real.lab.machine(9)
        real.lab.command(outside, f"ip address add {mark}/32 dev eth0")
        with real.lab.socket(outside, socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind((mark, 80))
            listener.listen()
            client = real.lab.socket(real.namespace("a"), socket.AF_INET, socket.SOCK_STREAM)
            with client, pytest.raises(ConnectionRefusedError):
                async with asyncio.timeout(5):
                    await asyncio.get_running_loop().sock_connect(client, (mark, 80))

    @pytest.mark.parametrize("address", ["169.254.20.10", "fd00:96:20::a"])
    async def test_the_node_reaches_what_the_platform_offers_and_is_known_there(
        self, real: RealWorld, address: str
    ) -> None:
        await two_pods(real, replace(PLAIN, from_node=(address,)))
        loop = asyncio.get_running_loop()
        listener = await real.node(1).bind(NET, address, 53, "tcp")
        client = real.lab.socket(real.lab.machine(1), listener.family, socket.SOCK_STREAM)
        with listener, client:
            async with asyncio.timeout(5):
                await loop.sock_connect(client, (address, 53))
                accepted, caller = await loop.sock_accept(listener)
            with accepted:
                assert caller[0] in node_marks(NODE)
                assert real.node(1).sandbox_of(NET, link_of_connection(accepted)) == ""

    async def test_routes_that_were_meddled_with_come_back(self, real: RealWorld) -> None:
        await two_pods(real, with_service(B))
        real.lab.command(real.lab.machine(1), "ip route delete 10.96.0.9")
        await real.node(1).apply(one_network(with_service(B)))
        assert await real.enters(1, "10.96.0.9", 8080) == "b"


def _refused(client: socket.socket) -> bool:
    try:
        client.send(b"?")
    except ConnectionRefusedError:
        return True
    return False
