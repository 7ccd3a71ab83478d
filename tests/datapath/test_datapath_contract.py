"""The contract of every datapath: pods are attached, reach permitted peers, and are removed completely.

All of it holds for virtual machines in the place of pods.
"""

from __future__ import annotations

import asyncio

import pytest

from tarmac.datapath.interface import NetworkState, NodeNetworks, Remote
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules, ServiceFrontend
from tests.datapath.conftest import OF_MACHINES_TOO
from tests.datapath.worlds import World, nic, one_network

pytestmark = pytest.mark.parametrize("world", OF_MACHINES_TOO, indirect=True)

NET = "shop/default"
A, A6 = "10.128.0.10", "fd20:1::10"
B, B6 = "10.128.0.11", "fd20:1::11"
FAR, FAR6 = "10.128.16.10", "fd20:1:0:1::10"
RANGES = ("10.128.0.0/9", "fd20:1::/48")

PLAIN = NetworkState(NET, 4097, 1460, ranges=RANGES)


async def two_pods(world: World, state: NetworkState = PLAIN) -> None:
    """Create pods `a` and `b` of one network on one node, which respond at ports 80 and 81."""
    await world.node(1).apply(one_network(state))
    await world.pod(1, "a", [nic(NET, f"{A}/20", f"{A6}/64")])
    await world.pod(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    for port in (80, 81):
        await world.serve("a", port)
        await world.serve("b", port)


@pytest.mark.parametrize("address", [B, B6])
async def test_pods_of_a_network_reach_each_other(world: World, address: str) -> None:
    await two_pods(world)
    assert await world.reaches("a", address) == "b"
    assert await world.reaches("a", address, protocol="UDP") == "b"


async def test_attaching_again_changes_nothing(world: World) -> None:
    await two_pods(world)
    before = [index for index in range(20) if world.node(1).sandbox_of(NET, index) == "b"]
    await world.attach_again(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    assert [index for index in range(20) if world.node(1).sandbox_of(NET, index) == "b"] == before
    assert len(before) == 1
    assert await world.reaches("a", B) == "b"


async def test_a_detached_pod_is_reached_no_more_and_may_be_detached_again(world: World) -> None:
    await two_pods(world)
    await world.node(1).detach("b")
    await world.node(1).detach("b")
    assert await world.reaches("a", B, hope=False) is None
    assert all(world.node(1).sandbox_of(NET, index) != "b" for index in range(20))


async def test_a_sweep_removes_those_that_are_not_alive_and_names_them(world: World) -> None:
    await two_pods(world)
    assert await world.node(1).sweep({"a"}) == ["b"]
    assert await world.node(1).sweep({"a"}) == []
    assert await world.reaches("a", B, hope=False) is None


@pytest.mark.parametrize("address", [FAR, FAR6])
async def test_pods_reach_each_other_from_node_to_node(world: World, address: str) -> None:
    await two_nodes(world)
    assert await world.reaches("a", address) == "far"
    assert await world.reaches("far", A if address == FAR else A6) == "a"


async def two_nodes(world: World) -> None:
    """Create pod `a` on node 1 and pod `far` on node 2, in one network."""
    here = NetworkState(NET, 4097, 1460, RANGES, (Remote("198.18.0.2", (f"{FAR}/32", "fd20:1:0:1::/64")),))
    there = NetworkState(NET, 4097, 1460, RANGES, (Remote("198.18.0.1", (f"{A}/32", f"{A6}/128")),))
    await world.node(1).apply(one_network(here))
    await world.node(2).apply(one_network(there, node=2))
    await world.pod(1, "a", [nic(NET, f"{A}/20", f"{A6}/64")])
    await world.pod(2, "far", [nic(NET, f"{FAR}/20", f"{FAR6}/64")])
    await world.serve("a", 80)
    await world.serve("far", 80)


async def test_an_address_that_moves_is_reached_where_it_is(world: World) -> None:
    await two_nodes(world)
    await world.pod(1, "old", [nic(NET, f"{FAR}/20", f"{FAR6}/64")])
    await world.serve("old", 80)
    assert await world.reaches("a", FAR) == "old"
    await world.node(1).detach("old")
    assert await world.reaches("a", FAR) == "far"
    assert await world.reaches("a", FAR6) == "far"


async def test_a_node_that_is_no_remote_any_more_is_not_reached(world: World) -> None:
    await two_nodes(world)
    assert await world.reaches("a", FAR) == "far"
    await world.node(1).apply(one_network(PLAIN))
    assert await world.reaches("a", FAR, hope=False) is None


async def test_networks_with_the_same_range_do_not_meet(world: World) -> None:
    other = NetworkState("bank/default", 4098, 1460, ranges=RANGES)
    await world.node(1).apply(NodeNetworks(("198.18.0.1",), (PLAIN, other)))
    await world.pod(1, "a", [nic(NET, f"{A}/20", f"{A6}/64")])
    await world.pod(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    await world.pod(1, "thief", [nic("bank/default", f"{A}/20", f"{A6}/64", vni=4098)])
    await world.pod(1, "bank", [nic("bank/default", "10.128.0.99/20", "fd20:1::99/64", vni=4098)])
    for sandbox_id in ("a", "b", "thief", "bank"):
        await world.serve(sandbox_id, 80)
    assert await world.reaches("b", A) == "a"
    assert await world.reaches("bank", A) == "thief"
    assert await world.reaches("bank", A6) == "thief"
    assert await world.reaches("b", "10.128.0.99", hope=False) is None
    assert await world.reaches("bank", B, hope=False) is None
    assert await world.reaches("bank", B6, hope=False) is None


async def test_a_pod_has_interfaces_on_several_networks(world: World) -> None:
    back = NetworkState("shop/back", 4099, 1460, ranges=("172.20.0.0/16", "fd21::/48"))
    await world.node(1).apply(NodeNetworks(("198.18.0.1",), (PLAIN, back)))
    leads = ("172.20.0.0/16", "fd21::/48")
    second = nic("shop/back", "172.20.0.5/24", "fd21::5/64", name="eth1", vni=4099, leads=leads)
    await world.pod(1, "both", [nic(NET, f"{A}/20", f"{A6}/64"), second])
    await world.pod(1, "b", [nic(NET, f"{B}/20", f"{B6}/64")])
    await world.pod(1, "c", [nic("shop/back", "172.20.0.6/24", "fd21::6/64", vni=4099)])
    for sandbox_id in ("both", "b", "c"):
        await world.serve(sandbox_id, 80)
    for address, name in ((B, "b"), (B6, "b"), ("172.20.0.6", "c"), ("fd21::6", "c")):
        assert await world.reaches("both", address) == name
    assert await world.reaches("b", A) == "both"
    assert await world.reaches("c", "172.20.0.5") == "both"
    assert await world.reaches("b", "172.20.0.6", hope=False) is None


WEB = Allowance(peers=(f"{A}/32", f"{A6}/128"), ports=(PortRange("TCP", 80),))
WORLD_BUT_A = Allowance(peers=("0.0.0.0/0", "::/0"), excluded=(f"{A}/32", f"{A6}/128"))
RANGE = Allowance(ports=(PortRange("TCP", 79, 80), PortRange("UDP", 81)))
EITHER = (
    Allowance(peers=("192.0.2.0/24",)),
    Allowance(peers=("10.128.0.0/20", "fd20:1::/64"), ports=(PortRange("UDP"),)),
)

POLICIES = {
    # name: rules of a, rules of b, and the ports of b that a then reaches: TCP 80, TCP 81, UDP 80, UDP 81
    "nothing said": (Rules(), Rules(), "yyyy"),
    "nothing let in": (Rules(), Rules(ingress=()), "nnnn"),
    "nothing let out": (Rules(egress=()), Rules(), "nnnn"),
    "out is not in": (Rules(ingress=()), Rules(egress=()), "yyyy"),
    "one peer at one port": (Rules(), Rules(ingress=(WEB,)), "ynnn"),
    "everyone at all ports": (Rules(), Rules(ingress=(Allowance(),)), "yyyy"),
    "all but the peer": (Rules(), Rules(ingress=(WORLD_BUT_A,)), "nnnn"),
    "a hole elsewhere": (Rules(egress=(WORLD_BUT_A,)), Rules(), "yyyy"),
    "ranges of ports": (Rules(), Rules(ingress=(RANGE,)), "ynny"),
    "both ends must agree": (Rules(egress=(RANGE,)), Rules(ingress=(WEB,)), "ynnn"),
    "one of several": (Rules(), Rules(ingress=EITHER), "nnyy"),
    "no peer at all": (Rules(), Rules(ingress=(Allowance(peers=()),)), "nnnn"),
    "out to one": (Rules(egress=(Allowance(peers=(f"{B}/32", f"{B6}/128")),)), Rules(), "yyyy"),
}


async def test_policies_allow_and_deny_exactly_as_written(world: World) -> None:
    await two_pods(world)
    for name, (of_a, of_b, expected) in POLICIES.items():
        rules = {A: of_a, A6: of_a, B: of_b, B6: of_b}
        await world.node(1).apply(one_network(NetworkState(NET, 4097, 1460, RANGES, rules=rules)))
        questions = [(B, p, n) for p in ("TCP", "UDP") for n in (80, 81)]
        questions += [(B6, p, n) for _, p, n in questions]
        answers = await asyncio.gather(
            *(
                world.reaches("a", address, port, protocol, hope=hope == "y")
                for (address, protocol, port), hope in zip(questions, expected * 2, strict=True)
            )
        )
        assert "".join("y" if each == "b" else "n" for each in answers) == expected * 2, name


async def test_replies_pass_and_a_pod_reaches_itself_whatever_the_rules(world: World) -> None:
    closed = Rules(ingress=(), egress=())
    rules = {A: Rules(ingress=()), B: Rules(egress=())}
    await two_pods(world, NetworkState(NET, 4097, 1460, RANGES, rules=rules))
    assert await world.reaches("a", B) == "b"
    assert await world.reaches("b", A, hope=False) is None
    await world.node(1).apply(one_network(NetworkState(NET, 4097, 1460, RANGES, rules={A: closed})))
    assert await world.reaches("a", A) == "a"


@pytest.mark.parametrize(("service", "backend"), [("10.96.0.9", B), ("fd00:96::9", B6)])
async def test_services_lead_to_a_backend(world: World, service: str, backend: str) -> None:
    ports = (
        ServiceFrontend(service, "TCP", 8080, ((backend, 80),)),
        ServiceFrontend(service, "UDP", 53, ((backend, 81),)),
    )
    await two_pods(world, NetworkState(NET, 4097, 1460, RANGES, services=ports))
    assert await world.reaches("a", service, 8080) == "b"
    assert await world.reaches("a", service, 53, "UDP") == "b"
    assert await world.reaches("b", service, 8080) == "b", "a pod reaches itself through its service"
    assert await world.reaches("a", service, 8081, hope=False) is None


async def test_policies_hold_for_connections_by_a_service(world: World) -> None:
    ports = (ServiceFrontend("10.96.0.9", "TCP", 8080, ((B, 80),)),)
    let_in = {B: Rules(ingress=(WEB,))}
    await two_pods(world, NetworkState(NET, 4097, 1460, RANGES, rules=let_in, services=ports))
    assert await world.reaches("a", "10.96.0.9", 8080) == "b"
    rules = {B: Rules(ingress=())}
    await world.node(1).apply(one_network(NetworkState(NET, 4097, 1460, RANGES, rules=rules, services=ports)))
    assert await world.reaches("a", "10.96.0.9", 8080, hope=False) is None


async def test_a_service_of_another_node_is_reached_over_the_tunnel(world: World) -> None:
    await two_nodes(world)
    ports = (ServiceFrontend("10.96.0.9", "TCP", 8080, ((FAR, 80),)),)
    remotes = (Remote("198.18.0.2", (f"{FAR}/32", "fd20:1:0:1::/64")),)
    await world.node(1).apply(one_network(NetworkState(NET, 4097, 1460, RANGES, remotes, services=ports)))
    assert await world.reaches("a", "10.96.0.9", 8080) == "far"


async def test_sockets_are_made_inside_the_network(world: World) -> None:
    await two_pods(world, NetworkState(NET, 4097, 1460, RANGES, rules={B: Rules(ingress=(), egress=())}))
    await world.expect_door(1, NET, B, 80, "b")
    loop = asyncio.get_running_loop()
    with await world.node(1).connect(NET, B, 80, 5.0) as probe:
        await loop.sock_sendall(probe, b"?")
        assert await loop.sock_recv(probe, 100) == b"b", "rules do not apply to probes"
    with pytest.raises(OSError):
        await world.node(1).connect(NET, B, 9, 5.0)
    with pytest.raises(OSError):
        await world.node(1).connect("no/network", B, 80, 5.0)
    with pytest.raises(OSError):
        await world.node(1).bind("no/network", "169.254.20.10", 53, "udp")


async def test_the_platform_listens_inside_the_network(world: World) -> None:
    await two_pods(world)
    loop = asyncio.get_running_loop()
    for address in ("169.254.20.10", "fd00:53::10"):
        listener = await world.node(1).bind(NET, address, 53, "tcp")
        with listener, await world.node(1).connect(NET, address, 53, 5.0) as client:
            accepted, caller = await loop.sock_accept(listener)
            accepted.close()
            assert caller[:2] == client.getsockname()[:2]


async def test_nothing_is_left_behind(world: World) -> None:
    untouched = world.everything(1)
    await two_pods(world)
    assert world.everything(1) != untouched
    await world.node(1).remove_all()
    for _ in range(100):
        if world.everything(1) == untouched:
            break
        await asyncio.sleep(0.05)  # the kernel reports the state of links a moment later
    assert world.everything(1) == untouched


async def test_a_network_that_is_not_wanted_goes_with_its_last_pod(world: World) -> None:
    await two_pods(world)
    await world.node(1).apply(NodeNetworks(("198.18.0.1",)))
    assert await world.reaches("a", B) == "b", "a network in use stays"
    await world.node(1).detach("a")
    await world.node(1).detach("b")
    await world.node(1).apply(NodeNetworks(("198.18.0.1",)))
    with pytest.raises(OSError):
        await world.node(1).connect(NET, B, 80, 5.0)
