"""Values of ExternalServices computed without a kernel: changed elements, numbers, revoked connections."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

import pytest

from tarmac.datapath.egress import Arrival, Departure, Entrance, Exit, OutsideLink, SourceAddress
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.egress.checking import check_source, leaving_out
from tarmac.datapath.linux.egress.fwmarks import FIRST_TABLE, gateway_numbers, tunnel_ways
from tarmac.datapath.linux.egress.outside import announcements
from tarmac.datapath.linux.egress.revoking import at_gateway, at_pods
from tarmac.datapath.linux.nftables import NftablesFault
from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables.forwarding import INWARD
from tarmac.datapath.linux.tables.gateway import gateway

OUT = Departure("ns/default", "10.0.0.2", "169.254.192.1", "TCP", 80, "192.0.2.9", 8080, "240.0.0.1", "192.0.2.200")
BACK = Arrival("ns/default", "192.0.2.9", "240.0.0.1", "UDP", 53, ("10.0.0.2", 5353), "192.0.2.200")
EXIT = Exit("240.0.0.1", "198.18.0.1", "192.0.2.9", "TCP", 8080)
ENTRANCE = Entrance("192.0.2.9", "TCP", 443, "240.0.0.1", "198.18.0.1")
ADDRESS = SourceAddress("192.0.2.200", 7, ("198.18.0.3",), OutsideLink("eth1", "192.0.2.0/24"), (EXIT,), (ENTRANCE,))


def filled(**elements: dict[str, str]) -> FilledTable:
    return FilledTable("inet", "t", "", elements)


def test_elements_are_deleted_first_and_changed_in_one_transaction() -> None:
    before = filled(m={"a": "1", "b": "2", "c": "3"}, s={"x": ""})
    (only,) = filled(m={"b": "9", "c": "3", "d": "4"}, s={}).changes(before)
    removed, added = only.split("add element", 1)
    assert {"a", "b"} <= set(removed.partition("m {")[2].replace(",", " ").split())
    assert "delete element inet t s { x }" in removed
    assert "b : 9" in added
    assert "d : 4" in added
    assert "c" not in only.replace("element", "").replace("inet", "").split()
    assert list(before.changes(before)) == []


def test_many_changes_are_several_transactions_each_whole() -> None:
    before = filled(m={str(n): "1" for n in range(7_000)})
    after = filled(m={str(n): "2" for n in range(7_000)})
    changes = list(after.changes(before))
    assert len(changes) == 2
    for each in changes:
        removed, added = each.split("add element")
        assert removed.count(",") == added.count(","), "each transaction adds the elements that it removes"


def test_gateways_keep_their_numbers_by_the_kernels_routes() -> None:
    first = gateway_numbers(["198.18.0.3", "198.18.0.4"], ())
    routes = tunnel_ways(5, first)
    assert {route.table for route in routes} == {FIRST_TABLE + 1, FIRST_TABLE + 2}
    later = gateway_numbers(["198.18.0.2", "198.18.0.4"], routes)
    assert later["198.18.0.4"] == first["198.18.0.4"]
    assert later["198.18.0.2"] == first["198.18.0.3"], "the number is free again"


def test_parts_that_the_kernel_does_not_take_are_found_by_halving() -> None:
    attempts: list[Sequence[int]] = []

    def attempt(parts: Sequence[int]) -> None:
        attempts.append(parts)
        if {13, 700} & set(parts):
            raise NftablesFault("no")

    bad = leaving_out(range(1000), attempt)
    assert [part for part, _ in bad] == [13, 700]
    assert len(attempts) < 50
    accepted = [each for each in attempts if not {13, 700} & set(each)]
    assert set(accepted[-1]) == set(range(1000)) - {13, 700}, "the last accepted set has all the others"


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "192.0.2.200 }"},
        {"address": "fd00::1"},
        {"address": "192.0.2.0200"},
        {"mark": 0},
        {"mark": 70_000},
        {"candidates": ("somewhere",)},
        {"outside": OutsideLink("eth1", "fd00::/64")},
        {"outside": OutsideLink("eth1", "192.0.2.0/24", "gateway")},
        {"exits": (Exit("240.0.0.1", "198.18.0.1", "fd00::1", "TCP", 80),)},
    ],
)
def test_an_invalid_address_never_becomes_a_rule(changes: dict[str, object]) -> None:
    check_source(ADDRESS)
    values = {name: getattr(ADDRESS, name) for name in ADDRESS.__slots__} | changes
    with pytest.raises(ValueError, match=r"."):
        check_source(SourceAddress(**values))  # type: ignore[arg-type]


def connection(
    source: str, meant: str, answerer: str, protocol: str, ports: tuple[int, int, int], mark: int
) -> TrackedConnection:
    """`ports`: of the source, the requested one, and of the responder."""
    return TrackedConnection(source, meant, answerer, protocol, ports[2], b"", ports[0], ports[1], mark)


def test_connections_at_pods_end_when_any_part_of_what_allowed_them_is_gone() -> None:
    revoked = at_pods([OUT], [BACK], {"240.0.0.1": 3})
    good = ("10.0.0.2", "169.254.192.1", "192.0.2.9", "TCP", (4000, 80, 8080), 3)
    assert not revoked(connection(*good))
    assert not revoked(connection(*good[:5], 0)), "a foreign connection"
    for place, other in enumerate(("10.0.0.3", "169.254.192.2", "192.0.2.8", "UDP", (4000, 81, 8080), 4)):
        assert revoked(connection(*good[:place], other, *good[place + 1 :])), place  # type: ignore[arg-type]
    inward = ("192.0.2.9", "240.0.0.1", "10.0.0.2", "UDP", (4000, 53, 5353), INWARD)
    assert not revoked(connection(*inward))
    assert revoked(connection(*inward[:2], "10.0.0.4", *inward[3:])), "the datagrams' endpoint is gone"
    assert revoked(connection("192.0.2.8", *inward[1:])), "another server"


def test_connections_at_a_gateway_end_with_their_way_in_each_direction() -> None:
    revoked = at_gateway([ADDRESS])
    out = connection("240.0.0.1", "192.0.2.9", "192.0.2.9", "TCP", (4000, 8080, 8080), 7)
    within = connection("192.0.2.9", "192.0.2.200", "240.0.0.1", "TCP", (4000, 443, 443), 7)
    picked_up = connection("240.0.0.1", "192.0.2.9", "192.0.2.9", "TCP", (443, 4000, 4000), 7)
    nothing_left = at_gateway([])
    for each in (out, within, picked_up):
        assert not revoked(each)
        assert nothing_left(each)
    assert revoked(connection("240.0.0.1", "192.0.2.9", "192.0.2.9", "TCP", (4000, 8080, 8080), 8)), "another address"
    assert revoked(connection("240.0.0.1", "192.0.2.9", "192.0.2.9", "TCP", (4000, 8081, 8081), 7)), "another port"


def test_nodes_are_chosen_as_often_as_they_have_endpoints() -> None:
    ways = [Entrance("192.0.2.9", "TCP", 80, f"240.0.0.{n}", f"198.18.0.{n}", weight) for n, weight in ((1, 4), (2, 2))]
    source = SourceAddress("192.0.2.200", 7, (), OutsideLink("eth1", "192.0.2.0/24"), (), tuple(ways))
    choice = gateway({}, {}, {}, [source])[0].elements["choice4-3"]
    assert isinstance(choice, Mapping)
    assert sorted(choice.values()) == ["240.0.0.1", "240.0.0.1", "240.0.0.2"]


def test_announcements_are_a_question_and_an_answer_or_an_advertisement() -> None:
    mac = "02:00:00:00:00:07"
    own, address = bytes.fromhex(mac.replace(":", "")), socket.inet_aton("192.0.2.200")
    for kind, frame in enumerate(announcements(mac, "192.0.2.200"), 1):
        assert frame[:12] == b"\xff" * 6 + own
        assert int.from_bytes(frame[20:22]) == kind
        assert frame[22:32] == own + address
        assert frame[38:42] == address
        assert len(frame) == 42
    (advertisement,) = announcements(mac, "fd00::7")
    assert advertisement[54] == 136
    assert advertisement[62:78] == socket.inet_pton(socket.AF_INET6, "fd00::7")
