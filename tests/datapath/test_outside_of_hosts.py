"""The outside segment of cities on one machine: made twice, used, and removed completely."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from ipaddress import IPv4Network
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from tarmac.datapath import hosts
from tests.datapath.test_city_hosts import talk


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("192.168.122.0", "too small"),
        ("192.168.122.0/25", "too small"),
        ("192.168.122.7/24", "host bits"),
        ("fd00:122::/64", "such as"),
        ("192.168.122.0/24,10.0.0.0/24", "such as"),
        ("198.18.0.0/24", "where the cities themselves are"),
        ("", "such as"),
    ],
)
def test_a_segment_that_cannot_be_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(hosts.BadSegment, match=why):
        hosts.read_segment(text)


def test_the_server_and_the_cities_have_addresses_of_their_own() -> None:
    segment = hosts.read_segment("192.168.122.0/24,fd00:122::/64")
    assert segment.servers == ("192.168.122.139", "fd00:122::139")
    assert segment.of_city(0) == ("192.168.122.2", "fd00:122::2")


@pytest.mark.root
def test_the_outside_is_built_idempotently_and_removed_completely(tmp_path: Path) -> None:
    underlay = hosts.plan(tmp_path, ["dfw", "sea"], hosts.free_subnet(tmp_path))
    segment = hosts.read_segment("192.168.122.0/24,fd00:122::/64")
    try:
        hosts.build(underlay)
        for _ in range(2):
            hosts.build_outside(underlay, segment)
        for city, address in zip(underlay.cities, ("192.168.122.2", "192.168.122.3"), strict=True):
            assert address in inside(city.namespace, "ip", "-4", "address", "show", "outside0")
            route = inside(city.namespace, "ip", "route", "get", "192.168.122.139")
            assert "dev outside0" in route
        outside = hosts.outside_namespace(underlay)
        assert inside(outside, "ip", "-o", "link", "show", "master", "lan").count("\n") == 2
        assert f"network namespace {outside}" in hosts.remains(underlay)
        hosts.remove_outside(underlay)
        assert not outside.exists()
        assert "outside0" not in inside(underlay.cities[0].namespace, "ip", "link")
        hosts.build_outside(underlay, segment)
    finally:
        hosts.remove(underlay)
    assert hosts.remains(underlay) == []
    assert not underlay.run.exists()


SEGMENT = "192.168.122.0/24,fd00:122::/64"


def test_routers_are_above_the_addresses_of_examples_and_clients_apart(tmp_path: Path) -> None:
    names = ["sea", "dfw"]
    underlay = hosts.plan(tmp_path, names, IPv4Network("198.18.0.0/24"))
    first, second = hosts.neighborhoods(underlay, hosts.read_segment(SEGMENT), names)
    assert (first.addresses, first.asn) == (("192.168.122.225", "fd00:122::fe00"), 65001)
    assert (second.addresses, second.asn) == (("192.168.122.226", "fd00:122::fe01"), 65002)
    assert second.node == ("192.168.122.2", "fd00:122::2"), "addresses of nodes follow their names, not the row"
    subnets = [*first.links, *first.row, *second.links]
    assert not [(one, other) for one, other in combinations(subnets, 2) if str(one) == str(other)]


def test_clients_are_refused_in_a_segment_of_their_own_range_and_for_too_many_cities(tmp_path: Path) -> None:
    underlay = hosts.plan(tmp_path, ["dfw"], IPv4Network("198.18.0.0/24"))
    with pytest.raises(hosts.BadSegment, match="where clients outside are"):
        hosts.neighborhoods(underlay, hosts.read_segment("198.51.100.0/24"), ["dfw"])
    with pytest.raises(hosts.BadSegment, match="at most 30 have a router"):
        hosts.neighborhoods(underlay, hosts.read_segment(SEGMENT), ["dfw"] * 31)


@pytest.mark.root
@pytest.mark.parametrize("text", [SEGMENT, "10.77.0.0/16"])
def test_routers_and_clients_are_built_again_beside_a_process_and_removed_completely(tmp_path: Path, text: str) -> None:
    names = ["dfw", "lhr", "sea"]
    underlay = hosts.plan(tmp_path, names, hosts.free_subnet(tmp_path))
    segment = hosts.read_segment(text)
    with ExitStack() as stack:
        stack.callback(hosts.remove, underlay)
        hosts.build(underlay)
        hosts.build_outside(underlay, segment)
        places = hosts.neighborhoods(underlay, segment, names)
        hosts.build_nearby(underlay, places)
        # A shell of a user keeps its namespace; its links must not be in the way of their successors.
        shell = stack.enter_context(subprocess.Popen(["nsenter", f"--net={places[1].client}", "sleep", "60"]))
        stack.callback(shell.kill)
        hosts.build_nearby(underlay, places)
        for place in places:
            for own, node in zip(place.links, place.node, strict=True):
                assert talk(place.city.namespace, place.client, node) == b"hello"
                assert talk(place.client, place.city.namespace, str(own[2])) == b"hello"
        for one, other in pairwise(places):
            for row in one.row:
                assert talk(one.router, other.router, str(row[1])) == b"hello"
        hosts.remove_nearby(underlay)
        assert "198.51.100.0" not in inside(places[0].city.namespace, "ip", "route")
        assert not any(place.client.exists() or place.router.exists() for place in places)
        ports = inside(hosts.outside_namespace(underlay), "ip", "-o", "link", "show", "master", "lan")
        assert ports.count("\n") == len(names), "those of the cities alone"
        hosts.build_nearby(underlay, places)
        assert f"network namespace {places[0].client}" in hosts.remains(underlay)
    assert hosts.remains(underlay) == []


def inside(namespace: Path, *command: str) -> str:
    found = ["nsenter", f"--net={namespace}", *command]
    return subprocess.run(found, capture_output=True, text=True, check=True, timeout=20).stdout
