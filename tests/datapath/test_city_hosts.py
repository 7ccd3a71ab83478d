"""Cities as hosts of their own on one machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tarmac.datapath import hosts
from tarmac.datapath.hosts.plan import subnet_choices
from tarmac.datapath.linux import namespaces

DIRECTORY = Path("/nowhere/test-city-hosts")
CITIES = ("dfw", "lhr")


def test_every_city_has_its_own_address_and_keeps_it_when_others_come() -> None:
    subnet = IPv4Network("198.18.7.0/24")
    few, many = (
        hosts.plan(DIRECTORY, ["dfw", "lhr"], subnet),
        hosts.plan(DIRECTORY, ["sea", "lhr", "osl", "dfw"], subnet),
    )
    assert {city.addresses for city in few.cities} <= {city.addresses for city in many.cities}
    assert len({address for city in many.cities for address in city.addresses}) == 8
    assert all(len(name) <= 15 for name in (many.bridge, *(city.link for city in many.cities)))


def test_two_directories_share_no_name_and_seldom_a_subnet() -> None:
    one, other = (hosts.plan(Path(f"/data/{n}"), CITIES, next(iter(subnet_choices(Path(f"/data/{n}"))))) for n in "ab")
    assert one.bridge != other.bridge
    assert one.run != other.run
    assert one.subnets != other.subnets
    assert not {city.link for city in one.cities} & {city.link for city in other.cities}


def test_every_subnet_is_tried_once() -> None:
    choices = list(subnet_choices(DIRECTORY))
    assert len(set(choices)) == len(choices) == 512


@pytest.fixture
def underlay() -> Iterator[hosts.HostUnderlay]:
    made = hosts.plan(DIRECTORY, CITIES, hosts.free_subnet(DIRECTORY))
    try:
        hosts.build(made)
        yield made
    finally:
        hosts.remove(made)


def talk(listening: Path | None, calling: Path, address: str) -> bytes:
    """Return the data that a caller in one namespace receives from a listener in another; None is the machine's own."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def made() -> socket.socket:
        return socket.create_server((address, 0), family=family)

    if listening is None:
        server = made()
    else:
        with namespaces.inside(listening):
            server = made()
    with server:
        server.settimeout(5)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello")

        answering = threading.Thread(target=answer)
        answering.start()
        try:
            with (
                namespaces.inside(calling),
                socket.create_connection((address, server.getsockname()[1]), timeout=5) as call,
            ):
                return call.recv(5)
        finally:
            answering.join(6)


@pytest.mark.root
def test_cities_reach_each_other_and_the_machine_over_both_families(underlay: hosts.HostUnderlay) -> None:
    dfw, lhr = underlay.cities
    for address in dfw.addresses:
        assert talk(dfw.namespace, lhr.namespace, address) == b"hello"
    for address in underlay.gateways:
        assert talk(None, lhr.namespace, address) == b"hello"


@pytest.mark.root
def test_building_again_keeps_what_is_there(underlay: hosts.HostUnderlay) -> None:
    before = [city.namespace.stat().st_ino for city in underlay.cities]
    hosts.build(hosts.plan(DIRECTORY, CITIES, hosts.free_subnet(DIRECTORY)))
    assert [city.namespace.stat().st_ino for city in underlay.cities] == before
    assert hosts.free_subnet(DIRECTORY) == underlay.subnets[0]


@pytest.mark.root
def test_removal_leaves_nothing_and_gives_the_machine_its_settings_back() -> None:
    forwarding = namespaces.control("ipv4/ip_forward")
    made = hosts.plan(DIRECTORY, CITIES, hosts.free_subnet(DIRECTORY))
    hosts.build(made)
    assert len(hosts.remains(made)) == 1 + 2 + 2 + 1, "a bridge, two links, two namespaces, a table"
    hosts.remove(made)
    assert hosts.remains(made) == []
    assert not made.run.exists()
    assert namespaces.control("ipv4/ip_forward") == forwarding
