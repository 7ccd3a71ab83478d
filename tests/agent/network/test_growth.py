"""Compiling networks, names and addresses grows at most as n log n for any input, and within bounds."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tarmac.agent.dns.dnsmessages import AAAA, ANY, PTR, SRV, A, Question
from tarmac.agent.dns.resolver import MAX_RECORDS, Resolver
from tarmac.agent.dns.view import (
    DnsView,
    EndpointRecord,
    InstanceRecord,
    NetworkAddress,
    PortRecord,
    ServiceRecord,
    SliceRecord,
)
from tarmac.agent.network.compiler import CompiledNetworks, NetworkCompiler, NetworkSnapshot
from tarmac.api.networking.network import NetworkStatus
from tarmac.controllers.network.networks import Allocations
from tarmac.controllers.service.controller import SelectorIndex
from tarmac.datapath.interface import HostPort, NetworkState
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.inward import door_numbers
from tarmac.datapath.linux.revoking import is_revoked, may_revoke
from tarmac.datapath.linux.tables import pods
from tarmac.datapath.linux.tables.policy import policy as policy_table
from tarmac.datapath.linux.tables.services import services as services_table
from tarmac.decide.addresses import FIRST_VNI, NodeAddresses, allocate_vni, carve, default_range
from tarmac.decide.endpoints import EndpointPod, ServiceFacts, shared_out
from tarmac.decide.endpoints import grouped as group_endpoints
from tarmac.decide.reach.evaluation import grouped, merged, ranges, widens
from tarmac.decide.reach.policies import DENIED
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules, ServiceFrontend
from tests.agent.network.growing import LOOP_SECONDS, assert_grows_gently, seconds
from tests.agent.network.test_compiling import HERE, NET, endpoints, member, policy, service

Work = Callable[[], object]
SIZES = (10, 100, 1_000, 10_000)
LOCAL = 100
ADDRESSES = ("198.18.0.1",)


def at(number: int) -> str:
    return f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def population(size: int) -> list[Any]:
    """Return pods of one network, a hundred of them local, each with a unique label and a shared one."""
    return [
        member(
            f"p{n}",
            at(n),
            HERE if n < LOCAL else "there",
            labels={"n": str(n), "app": f"a{n % 100}"},
            host="198.18.0.1" if n < LOCAL else f"198.19.{n >> 8 & 255}.{n & 255}",
        )
        for n in range(size)
    ]


def compiling(**snapshot: Any) -> Work:
    return lambda: compiled(**snapshot)


def compiled(**snapshot: Any) -> CompiledNetworks:
    return NetworkCompiler(HERE, lambda: 0.0).compile(NetworkSnapshot(**snapshot), ADDRESSES)


def holes(size: int) -> list[str]:
    return [f"{10 + (n >> 15)}.{n >> 7 & 255}.{(n & 127) * 2}.0/24" for n in range(size)]


def with_holes(size: int) -> Any:
    block = {"cidr": "0.0.0.0/0", "except": holes(size)}
    return policy({"selector": {}, "ingress": [{"from": [{"ipBlock": block}]}]})


def many_exceptions(size: int) -> Work:
    return compiling(members=population(LOCAL), policies=[with_holes(size)])


def many_policies_about_many_pods(size: int) -> Work:
    policies = [
        policy(
            {
                "selector": {"matchLabels": {"n": str(n)}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"n": str(n + 1)}}}], "ports": [{"port": 80}]}],
            },
            name=f"x{n}",
        )
        for n in range(size)
    ]
    return compiling(members=population(size), policies=policies)


def many_pods_that_one_policy_means(size: int) -> Work:
    everybody = policy({"selector": {}, "ingress": [{"from": [{"podSelector": {}}]}]})
    return compiling(members=population(size), policies=[everybody])


def many_ports(size: int) -> Work:
    listed = [{"port": 1 + n * 2 % 65535} for n in range(size)]
    return compiling(members=population(LOCAL), policies=[policy({"selector": {}, "ingress": [{"ports": listed}]})])


def many_services(size: int) -> Work:
    made = [service(f"s{n}", clusterIPs=[f"10.96.{n >> 8}.{n & 255}"]) for n in range(size)]
    return compiling(
        members=population(10), services=made, slices=[endpoints(at(n), name=f"s{n}") for n in range(size)]
    )


def many_backends(size: int) -> Work:
    slices = [endpoints(*(at(n) for n in range(start, min(start + 100, size)))) for start in range(0, size, 100)]
    return compiling(members=population(10), services=[service()], slices=slices)


def many_networks(size: int) -> Work:
    members = [member(f"p{n}", at(n), network=f"shop/n{n}") for n in range(size)]
    return compiling(members=members, services=[service()], slices=[endpoints("192.0.2.1", network="")])


COMPILED = [
    many_exceptions,
    many_policies_about_many_pods,
    many_pods_that_one_policy_means,
    many_ports,
    many_services,
    many_backends,
]


@pytest.mark.parametrize("prepare", COMPILED)
def test_a_compiler(prepare: Callable[[int], Work]) -> None:
    assert_grows_gently(prepare, SIZES)


def test_a_compiler_of_many_networks() -> None:
    assert_grows_gently(many_networks, SIZES[:3])


def rules_table(size: int) -> Work:
    rules = Rules((Allowance(("0.0.0.0/0",), tuple(holes(size))),), ())
    return lambda: policy_table({at(n): rules for n in range(LOCAL)})


def ports_of(count: int, backends: int) -> list[ServiceFrontend]:
    return [
        ServiceFrontend(f"10.96.{n >> 8}.{n & 255}", "TCP", 80, tuple((at(n + each), 80) for each in range(backends)))
        for n in range(count)
    ]


def widening(size: int) -> Work:
    before = tuple(Allowance((f"{at(n)}/32",), ports=(PortRange("TCP", 80 + n % 10),)) for n in range(size))
    return lambda: widens(before, (*before, Allowance(("192.0.2.0/24",))))


def judging(size: int) -> Work:
    rules = {at(1): Rules(tuple(Allowance((f"{at(n)}/32",), ports=(PortRange("TCP", n),)) for n in range(size)))}
    connections = [TrackedConnection(at(n), "10.96.0.1", at(1), "TCP", n, b"") for n in range(2, size + 2)]

    def judge() -> None:
        revoked = is_revoked(rules, ())
        for connection in connections:
            revoked(connection)

    return judge


def clashing_doors(size: int) -> Work:
    ports = [HostPort("TCP", 1 + n % 50, (at(n), 80), f"127.{n >> 16}.{n >> 8 & 255}.{n & 255}") for n in range(size)]
    return lambda: door_numbers(ports)


def subnets(size: int) -> Work:
    taken = [f"10.{128 + (n >> 12)}.{(n >> 4) & 255}.{(n & 15) * 16}/28" for n in range(size)]
    return lambda: carve("10.128.0.0/9", taken, 28)


def nodes(size: int) -> Work:
    def learn() -> None:
        known = NodeAddresses()
        for n in range(size):
            known.put(f"n{n}", [at(n), f"fd99::{n:x}"])
            known.are_in("10.0.0.0/8")

    return learn


def selectors(size: int) -> Work:
    def learn() -> None:
        known = SelectorIndex()
        for n in range(size):
            known.put("shop", f"shop/s{n}", {"app": str(n)})
        for n in range(size):
            assert list(known.matching("shop", {"app": str(n), "tier": "x"})) == [f"shop/s{n}"]

    return learn


def endpoints_of_a_service(size: int) -> Work:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], "ipFamilies": ["IPv4"]}
    selecting = msgspec.convert({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}, ServiceFacts)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    made = [
        {"metadata": {"name": f"p{n}", "uid": f"u{n}"}, "spec": {}, "status": {**status, "podIPs": [{"ip": at(n)}]}}
        for n in range(size)
    ]
    facts = msgspec.convert(made, list[EndpointPod])

    def share() -> None:
        for found in group_endpoints(selecting, facts).values():
            shared_out(shared_out({}, [each.uid for each in found]), [each.uid for each in found[1:]])

    return share


def numbers_of_networks(size: int) -> Work:
    def give() -> None:
        known = Allocations()
        for n in range(size):
            number = allocate_vni(known.numbers).value
            assert number is not None
            assert number == FIRST_VNI + n
            known.hold(f"uid-{n}", NetworkStatus(vni=number, ipv6_range=default_range("IPv6", str(n), known.ranges)))

    return give


PIECES: dict[str, Callable[[int], Work]] = {
    "ranges": lambda size: lambda: ranges(Allowance(("0.0.0.0/0",), tuple(holes(size))), 4),
    "groups": lambda size: lambda: grouped([Allowance((each,)) for each in holes(size)], 4),
    "ports": lambda size: lambda: merged(PortRange("TCP", n * 2) for n in range(size)),
    "table of rules": rules_table,
    "table of services": lambda size: lambda: services_table(ports_of(size, 2)),
    "table of backends": lambda size: lambda: services_table(ports_of(1, size)),
    "marks of pods": lambda size: lambda: pods.change({}, pods.marks({at(n): str(n) for n in range(size)})),
    "widening": widening,
    "judging": judging,
    "doors": clashing_doors,
    "subnets": subnets,
    "nodes": nodes,
    "selectors": selectors,
    "endpoints of a Service": endpoints_of_a_service,
    "numbers of networks": numbers_of_networks,
}


@pytest.mark.parametrize("name", PIECES)
def test_a_piece(name: str) -> None:
    assert_grows_gently(PIECES[name], SIZES)


def test_a_change_of_rules_is_compared_by_what_is_different() -> None:
    def compared(size: int) -> Work:
        rules = Rules((Allowance(("0.0.0.0/0",), tuple(holes(size))),), None)
        before = NetworkState("a/b", 1, 1460, rules={at(n): rules for n in range(LOCAL)})
        after = NetworkState("a/b", 1, 1460, rules={at(n): rules for n in range(LOCAL + 1)})
        return lambda: may_revoke(before, after)

    assert_grows_gently(compared, SIZES)


class TestWhatIsTooLarge:
    def test_closes_the_pods_it_is_about_and_says_why(self) -> None:
        stranger = member("other", at(1), network="bank/default", namespace="bank")
        found = compiled(members=[*population(LOCAL), stranger], policies=[with_holes(30_000)])
        states = {network.name: network for network in found.networks.networks}
        assert set(map(id, states[NET].rules.values())) == {id(DENIED)}
        assert states["bank/default"].rules[at(1)] == Rules()
        assert list(found.refusals) == [NET]
        assert "more than 20000 ranges of addresses and ports" in found.refusals[NET][0]

    def test_takes_a_bounded_time_when_everybody_is_compared_with_everybody(self) -> None:
        policies = [
            policy(
                {
                    "selector": {},
                    "ingress": [
                        {
                            "from": [
                                {"podSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]}}
                            ],
                            "ports": [{"port": 80 + n}],
                        }
                    ],
                },
                name=f"x{n}",
            )
            for n in range(1_000)
        ]
        snapshot = {"members": population(1_000), "policies": policies}
        assert "steps to evaluate selectors" in compiled(**snapshot).refusals[NET][0]
        assert seconds(compiling(**snapshot), 2.0) < 2.0

    def test_is_not_made_first_when_ports_and_endpoints_multiply(self) -> None:
        ports = [{"port": 1 + n, "name": f"p{n}"} for n in range(1_000)]
        wide = service(ports=ports)
        one = endpoints(*(at(n) for n in range(100)))
        slices = [replace(one, ports=[replace(one.ports[0], name=f"p{n}") for n in range(1_000)])] * 100
        found = compiled(members=population(1), services=[wide], slices=slices)
        assert seconds(compiling(members=population(1), services=[wide], slices=slices), 1.0) < 1.0
        assert not any(port.backends for port in found.networks.networks[0].services)

    def test_does_not_crowd_out_the_services_of_others(self) -> None:
        flood = [service(f"f{n}", "flood", clusterIPs=[f"10.97.{n >> 8}.{n & 255}"]) for n in range(300)]
        many = [
            endpoints(*(at(n) for n in range(100)), network="", name=f"f{n}", namespace="flood") for n in range(300)
        ]
        own, api = service(), service("api", "default", clusterIPs=["10.96.0.1"])
        slices = [*many, endpoints(at(1)), endpoints("192.0.2.1", network="", name="api", namespace="default")]
        found = compiled(members=population(1), services=[*flood, own, api], slices=slices)
        served = {port.address: port.backends for port in found.networks.networks[0].services}
        assert served["10.96.0.9"] == ((at(1), 6000),)
        assert served["10.96.0.1"] == (("192.0.2.1", 6000),)
        assert sum(map(len, served.values())) <= 20_002
        assert "Service flood/f" in found.refusals[NET][0]


class TestOneChange:
    def test_works_out_only_the_network_it_concerns(self) -> None:
        members = [*population(LOCAL), member("other", at(1), network="bank/default", namespace="bank")]
        compiler = NetworkCompiler(HERE, time.monotonic)
        first = compiler.compile(NetworkSnapshot(members=members), ADDRESSES)
        closed = [policy({"selector": {}}, namespace="bank")]
        second = compiler.compile(NetworkSnapshot(members=members, policies=closed), ADDRESSES)
        before, after = ({each.name: each for each in found.networks.networks} for found in (first, second))
        assert after["bank/default"].rules != before["bank/default"].rules
        assert after[NET].rules is before[NET].rules

    def test_of_a_network_that_takes_long_waits_for_the_others(self) -> None:
        now = 0.0

        def slow() -> float:
            nonlocal now
            now += 0.05  # every reading of the clock, so every network, takes this long
            return now

        members = [member(f"p{n}", at(n), network=f"shop/n{n:02}") for n in range(20)]
        compiler = NetworkCompiler(HERE, slow)
        turns = []
        while not turns or turns[-1].late:
            turns.append(compiler.compile(NetworkSnapshot(members=members), ADDRESSES))
        assert len(turns) > 2
        assert len(turns[0].networks.networks) < len(turns[-1].networks.networks) == 20


@pytest.mark.serial
async def test_compiling_beside_the_loop_leaves_it_to_others() -> None:
    snapshot = NetworkSnapshot(members=population(10_000), policies=[with_holes(19_000)])
    compiler = NetworkCompiler(HERE, time.monotonic)
    gc.freeze()  # as agents do: no collection of the test's objects interrupts the measurement
    longest, last = 0.0, time.monotonic()
    work = asyncio.create_task(asyncio.to_thread(compiler.compile, snapshot, ADDRESSES))
    while not work.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert (await work).networks.networks
    assert longest < 3 * LOOP_SECONDS


def view_of(size: int) -> DnsView:
    made, port = DnsView(), PortRecord("http", "tcp", 80)
    made.put_service(("shop", "web"), ServiceRecord())
    for n in range(0, size, 100):
        listed = tuple(
            EndpointRecord(f"h{each}", NetworkAddress(NET, at(each)), True) for each in range(n, min(n + 100, size))
        )
        made.put_slice(("shop", "web"), f"web-{n}", SliceRecord(NET, (port,), listed))
    for n in range(size):
        made.put_service(("shop", f"s{n}"), ServiceRecord((f"10.96.{n >> 8}.{n & 255}",), (port,)))
        made.put_member(("shop", "app"), f"app-{n}", InstanceRecord((NetworkAddress(NET, at(n)),), True))
    return made


@pytest.fixture(scope="module")
def resolver() -> Resolver:
    return Resolver(view_of(10_000))


class TestNames:
    def test_following_grows_gently(self) -> None:
        assert_grows_gently(lambda size: lambda: view_of(size), (100, 1_000, 10_000))

    @pytest.mark.parametrize("type", [A, AAAA, SRV, PTR, ANY])
    @pytest.mark.parametrize(
        "name",
        ["web.shop.svc", "h7.web.shop.svc", "_http._tcp.web.shop.svc", "app.shop.inst", "nowhere.svc", "none.inst"],
    )
    def test_an_answer_is_quick_and_bounded(self, resolver: Resolver, name: str, type: int) -> None:
        question = Question((*name.split("."), "cluster", "local"), type)
        found = resolver.answer(question, {NET})
        assert found is not None
        assert len(found.answers) <= MAX_RECORDS
        assert seconds(lambda: resolver.answer(question, {NET})) < LOOP_SECONDS / 2
