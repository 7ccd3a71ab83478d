"""Addresses that a node may claim as its own."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.decide.nodeaddresses import address_objection, canonical, name_objection, status_objection

FREE = {"10.0.0.1", "192.168.7.8", "172.16.0.1", "198.18.4.10", "203.0.113.5", "100.64.0.1", "2001:db8::1", "fd00::7"}


def nobody(_said: str) -> None:
    return None


@pytest.mark.parametrize("address", sorted(FREE))
def test_addresses_that_machines_have(address: str) -> None:
    assert address_objection(address, nobody) is None
    assert address_objection(address, lambda _: "somebody's") == f"the address {address} is somebody's"


@given(st.ip_addresses(v=4))
def test_an_address_has_one_spelling(address: object) -> None:
    """An IPv4 address written as IPv6 is refused or accepted for the same reason."""
    mapped = str(IPv6Address(f"::ffff:{address}"))
    assert canonical(mapped) == canonical(str(address)) == address
    seen: list[str] = []
    plain, other = (address_objection(text, seen.append) for text in (str(address), mapped))
    assert (plain is None) == (other is None)
    assert set(seen) <= {str(address)}


@given(st.ip_addresses())
def test_loopback_multicast_and_link_local_node_addresses_are_refused(address: object) -> None:
    parsed = ip_address(str(address))
    if parsed.is_loopback or parsed.is_multicast or parsed.is_link_local or parsed.is_unspecified:
        assert address_objection(str(address), nobody) is not None


@pytest.mark.parametrize("name", ["n1", "N1", "n1.", "n1.lan", "n1.example.com"])
def test_names_of_its_own(name: str) -> None:
    assert name_objection("n1", name, nobody) is None


@pytest.mark.parametrize("name", ["", ".", "n2", "n10", "xn1", "n1x.lan", "*.n1", "n1.svc", "n1.x.cluster.local"])
def test_names_of_others(name: str) -> None:
    assert name_objection("n1", name, nobody) is not None


@pytest.mark.parametrize("node", ["kubernetes", "localhost", "kubernetes.default", "web.default.svc", "cluster.local"])
def test_a_node_that_is_called_as_the_cluster_is(node: str) -> None:
    assert name_objection(node, node, nobody) is not None


def test_a_type_that_there_is_not() -> None:
    assert status_objection("n1", "Anything", "10.0.0.1", nobody) is not None
    assert status_objection("n1", "InternalIP", "n1", nobody) == '"n1" is not an IP address'
    assert status_objection("n1", "Hostname", "10.0.0.1", nobody) is not None
