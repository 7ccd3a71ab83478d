"""The routers and pools of `tarmac up --outside`, before anything runs: BIRD accepts every configuration."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.apps.cities.outsidepools import public_pools, router_peer
from tarmac.apps.cities.outsiderouters import router_config
from tarmac.datapath import hosts
from tests.datapath.routers import find_bird

SEGMENTS = ("192.168.122.0/24,fd00:122::/64", "10.77.0.0/16")


def places(folder: Path, text: str, *names: str) -> list[hosts.Neighborhood]:
    underlay = hosts.plan(folder, names, IPv4Network("198.18.0.0/24"))
    return hosts.neighborhoods(underlay, hosts.read_segment(text), names)


@pytest.mark.root  # BIRD comes with the parts of real nodes
@pytest.mark.parametrize("text", SEGMENTS)
@pytest.mark.parametrize("names", [("dfw",), ("dfw", "sea"), ("dfw", "sea", "lhr")], ids=len)
def test_bird_accepts_the_configuration_of_every_router_of_a_row(
    tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    row = places(tmp_path, text, *names)
    for place in row:
        config = tmp_path / f"{place.city.name}.conf"
        config.write_text(router_config(place, row, "correct horse"))
        done = subprocess.run(
            [find_bird(), "-p", "-c", config], capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == 0, done.stderr
    assert router_config(row[0], row, "").count("protocol bgp") == min(2, len(names)), "its node, and the next router"


@pytest.mark.parametrize("text", SEGMENTS)
def test_pools_lie_outside_the_addresses_that_the_segment_uses(tmp_path: Path, text: str) -> None:
    row = places(tmp_path, text, "dfw", "sea", "lhr")
    public, anycast = public_pools(row[0])
    (part,) = (ip_network(each["cidr"]) for each in public["spec"]["ranges"])
    assert part.subnet_of(row[0].segment.subnets[0])  # type: ignore[arg-type]
    used = {*row[0].segment.servers, *(own for each in row for own in (*each.addresses, *each.node))}
    assert not [each for each in used if ip_address(each) in part]
    assert public["spec"]["subnet"]["gateway"] == row[0].addresses[0], "clients behind routers get answers"
    assert {ip_network(each["cidr"]).version for each in anycast["spec"]["ranges"]} == set(row[0].families)


def test_pools_and_peers_are_valid(tmp_path: Path) -> None:
    catalog = build_catalog()
    row = places(tmp_path, SEGMENTS[0], "dfw", "sea")
    for made in (*public_pools(row[0]), *map(router_peer, row)):
        group, _, version = made["apiVersion"].rpartition("/")
        assert catalog.find_kind(group, version, made["kind"]) is not None
    assert [router_peer(each)["spec"]["locations"] for each in row] == [["dfw"], ["sea"]]
