"""The outside segment of cities on one machine: made twice, used, and removed completely."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tarmac.datapath import hosts


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


def inside(namespace: Path, *command: str) -> str:
    found = ["nsenter", f"--net={namespace}", *command]
    return subprocess.run(found, capture_output=True, text=True, check=True, timeout=20).stdout
