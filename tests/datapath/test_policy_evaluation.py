"""Evaluation of policy rules, and detection of changes that revoke a permission."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.datapath.interface import NetworkState
from tarmac.datapath.linux import revoking
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.revoking import is_revoked, may_revoke
from tarmac.decide.reach.evaluation import merged, permits, ranges, widens
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules, ServiceFrontend

BASE = NetworkState("a/b", 1, 1460)
NARROW = Allowance(("10.0.0.1/32",), ports=(PortRange("TCP", 80),))
WIDER = Allowance(("10.0.0.1/32", "10.0.0.2/32"), ports=(PortRange("TCP", 80), PortRange("TCP", 81)))

networks = st.builds(
    lambda number, length: str(ip_network((number >> (32 - length) << (32 - length) if length else 0, length))),
    st.integers(0x0A000000, 0x0A00FFFF),
    st.integers(14, 32),
)
allowances = st.builds(
    lambda peers, excluded: Allowance(tuple(peers), tuple(excluded)),
    st.lists(networks, max_size=4),
    st.lists(networks, max_size=4),
)


@given(allowances, st.integers(0x0A000000, 0x0A00FFFF))
def test_ranges_are_exactly_the_peers_without_the_holes(allowance: Allowance, number: int) -> None:
    address = ip_address(number)
    meant = ranges(allowance, 4)
    assert meant is not None
    inside, outside = (
        any(address in ip_network(each) for each in listed) for listed in (allowance.peers or (), allowance.excluded)
    )
    assert any(first <= number <= last for first, last in meant) == (inside and not outside)
    assert permits((allowance,), str(address), "TCP", 80) == (inside and not outside)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(meant))


def test_ranges_of_the_other_family_are_none() -> None:
    assert ranges(Allowance(("10.0.0.0/8",)), 6) == []
    assert ranges(Allowance(), 6) is None


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 50)), min_size=1, max_size=8), st.integers(0, 400))
def test_ports_merge_without_loss(spans: list[tuple[int, int]], port: int) -> None:
    ports = tuple(PortRange("TCP", first, first + more) for first, more in spans)
    found = merged(ports)
    assert found is not None
    assert any(first <= port <= last for first, last in found) == permits(
        (Allowance(ports=ports),), "10.0.0.1", "TCP", port
    )
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))


def test_all_ports_of_a_protocol_include_every_port() -> None:
    assert merged([PortRange("TCP"), PortRange("TCP", 80)]) is None


def test_a_packet_without_ports_passes_only_where_ports_do_not_matter() -> None:
    assert permits((Allowance(),), "10.0.0.1", "1", None)
    assert not permits((Allowance(ports=(PortRange("TCP"),)),), "10.0.0.1", "1", None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, True),
        (None, (), False),
        ((), (), True),
        ((NARROW,), None, True),
        ((NARROW,), (WIDER,), True),
        ((WIDER,), (NARROW,), False),
        ((NARROW,), (WIDER, NARROW), True),
        ((Allowance(),), (WIDER,), False),
        ((WIDER,), (Allowance(),), True),
        ((NARROW,), (replace(WIDER, excluded=("10.0.0.1/32",)),), False),
    ],
)
def test_widened_rules_are_recognised(
    before: tuple[Allowance, ...] | None, after: tuple[Allowance, ...] | None, expected: bool
) -> None:
    assert widens(before, after) is expected


def test_connections_are_asked_about_only_when_one_could_have_to_go() -> None:
    one = replace(BASE, rules={"10.0.0.9": Rules(ingress=(NARROW,))})
    assert may_revoke(None, one)
    assert not may_revoke(one, one)
    assert not may_revoke(one, replace(one, rules={**one.rules, "10.0.0.8": Rules()}))
    assert may_revoke(one, replace(one, rules={**one.rules, "10.0.0.8": Rules(ingress=())}))
    assert not may_revoke(one, BASE), "a removed pod has no connections"
    assert not may_revoke(one, replace(one, rules={"10.0.0.9": Rules(ingress=(WIDER,))}))
    assert may_revoke(one, replace(one, rules={"10.0.0.9": Rules(ingress=())}))


def test_datagrams_to_a_backend_that_left_its_service_go_elsewhere() -> None:
    def state(*backends: str) -> NetworkState:
        port = ServiceFrontend("10.96.0.9", "UDP", 53, tuple((each, 53) for each in backends))
        return replace(BASE, services=(port,))

    assert may_revoke(state("10.0.0.1", "10.0.0.2"), state("10.0.0.1"))
    assert not may_revoke(state("10.0.0.1"), state("10.0.0.1", "10.0.0.2"))
    question = is_revoked({}, state("10.0.0.1").services)
    assert question(TrackedConnection("10.0.0.5", "10.96.0.9", "10.0.0.2", "UDP", 53, b""))
    assert not question(TrackedConnection("10.0.0.5", "10.96.0.9", "10.0.0.1", "UDP", 53, b""))
    assert not question(TrackedConnection("10.0.0.5", "10.96.0.9", "10.0.0.2", "TCP", 53, b""))


def test_connections_beyond_what_can_be_judged_are_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revoking, "_MAX_EVALUATIONS", 20)
    question = is_revoked({"10.0.0.9": Rules(ingress=(NARROW,)), "10.0.0.8": Rules()}, ())
    allowed = TrackedConnection("10.0.0.1", "10.0.0.9", "10.0.0.9", "TCP", 80, b"")
    judged = [question(allowed) for _ in range(20)]
    assert not judged[0]
    assert judged[-1]
    assert not question(TrackedConnection("10.0.0.1", "10.0.0.8", "10.0.0.8", "TCP", 80, b"")), "the pod has no rules"


def test_a_connection_is_judged_by_who_answers() -> None:
    rules = {"10.0.0.9": Rules(ingress=(NARROW,)), "10.0.0.5": Rules(egress=(NARROW,))}
    question = is_revoked(rules, ())
    cases = {
        ("10.0.0.1", "10.0.0.9", 80): False,
        ("10.0.0.1", "10.0.0.9", 81): True,
        ("10.0.0.2", "10.0.0.9", 80): True,
        ("10.0.0.5", "10.0.0.1", 80): False,
        ("10.0.0.5", "10.0.0.2", 80): True,
        ("10.0.0.9", "10.0.0.9", 99): False,
        ("10.0.0.9", "192.0.2.1", 99): False,
    }
    for (source, answerer, port), expected in cases.items():
        assert question(TrackedConnection(source, "10.96.0.9", answerer, "TCP", port, b"")) is expected
