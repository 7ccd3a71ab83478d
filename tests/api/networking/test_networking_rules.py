"""Rules of locations, networks, subnets and traffic policies."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.networking.validation.trafficrules import MAX_ENTRIES
from tarmac.api.schema import JsonObject
from tests.api.checking import causes, errors_of, make

CITY = "topology.datum.net/city-code"


def location(**changes: Any) -> JsonObject:
    spec: JsonObject = {"locationClassName": "self-managed", "topology": {CITY: "DFW"}, "provider": {"nodes": {}}}
    return make("Location", {**spec, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"provider": {"simulated": {}}}, []),
        ({"locationClassName": "rented"}, ["NotSupported spec.locationClassName"]),
        ({"provider": {}}, ["Required spec.provider"]),
        ({"provider": {"nodes": {}, "simulated": {}}}, ["Forbidden spec.provider.simulated"]),
        ({"topology": {}}, [f"Required spec.topology[{CITY}]"]),
        ({"topology": {CITY: "dfw"}}, [f"Invalid spec.topology[{CITY}]"]),
        ({"topology": {CITY: "DFW", "a/b/c": "x"}}, ["Invalid spec.topology"]),
        (
            {"coordinates": {"latitude": "91", "longitude": "x"}},
            ["Invalid spec.coordinates.longitude", "Invalid spec.coordinates.latitude"],
        ),
        ({"coordinates": {"latitude": "52.31", "longitude": "4.76"}}, []),
    ],
)
def test_locations(changes: dict[str, Any], expected: list[str]) -> None:
    assert causes(location(**changes)) == expected


def network(ipam: JsonObject | None = None, **changes: Any) -> JsonObject:
    return make("Network", {"ipam": {"mode": "Auto", **(ipam or {})}, **changes})


def test_a_network_carries_ipv4_unless_it_says_otherwise() -> None:
    obj = network()
    assert causes(obj) == []
    assert obj["spec"] == {
        "ipam": {"mode": "Auto"}, "ipFamilies": ["IPv4"], "mtu": 1460, "encryption": "BetweenLocations",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (network({"ipv4Range": "10.0.0.0/28", "ipv6Range": "fd00::/48"}), []),
        (network(encryption="Always"), []),
        (network(encryption="sometimes"), ["NotSupported spec.encryption"]),
        (network({"ipv4Range": "10.0.0.0/29"}), ["Invalid spec.ipam.ipv4Range"]),
        (network({"ipv4Range": "10.0.0.1/16"}), ["Invalid spec.ipam.ipv4Range"]),
        (network({"ipv4Range": "fd00::/48"}), ["Invalid spec.ipam.ipv4Range"]),
        (network({"ipv6Range": "nonsense"}), ["Invalid spec.ipam.ipv6Range"]),
        (network(ipFamilies=["IPv4", "IPv4"]), ["Duplicate spec.ipFamilies[1]"]),
        (network(ipFamilies=[]), ["Invalid spec.ipFamilies"]),
        (network(mtu=9000), ["Invalid spec.mtu"]),
        (network({"mode": "Magic"}), ["NotSupported spec.ipam.mode"]),
        (make("Network", {}), ["Required spec.ipam"]),
    ],
)
def test_networks(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


NOBODYS = {
    "ipv4Range": [
        "0.0.0.0/0",
        "0.0.0.0/8",
        "127.0.0.0/8",
        "127.1.0.0/16",
        "169.254.0.0/16",
        "169.254.169.0/24",
        "224.0.0.0/4",
        "239.1.0.0/16",
        "240.0.0.0/4",
        "255.255.255.0/24",
        "10.96.0.0/12",
        "10.100.0.0/16",
        "10.0.0.0/8",
    ],
    "ipv6Range": [
        "::/0",
        "::/96",
        "::/112",
        "64:ff9b::/96",
        "fe80::/64",
        "ff00::/8",
        "ff02::/64",
        "fd00:96::/112",
        "fd00:96::/32",
        "fd74:6172:6d63:fffe::/64",
        "fd74:6172:6d63::/48",
        "fc00::/7",
    ],
}


@pytest.mark.parametrize(("field", "written"), [(field, each) for field, ranges in NOBODYS.items() for each in ranges])
def test_a_range_that_can_be_no_networks_is_refused_with_one_that_could(field: str, written: str) -> None:
    (error,) = errors_of(network({field: written}))
    assert (error.kind, error.path) == ("Invalid", f"spec.ipam.{field}")
    assert "must not overlap" in error.detail
    assert ": use for example" in error.detail


def test_ipv4_written_as_ipv6_is_no_range() -> None:
    assert causes(network({"ipv6Range": "::ffff:10.0.0.0/112"})) == ["Invalid spec.ipam.ipv6Range"]


def test_a_network_that_has_such_a_range_already_can_still_be_changed() -> None:
    old = network({"ipv4Range": "10.0.0.0/8"})
    assert causes(network({"ipv4Range": "10.0.0.0/8"}, mtu=1400), old) == []


@pytest.mark.parametrize("start", ["127.0.0.0", "224.0.0.16", "10.96.0.0", "169.254.20.0", "240.0.0.0"])
@pytest.mark.parametrize("kind", ["SubnetClaim", "Subnet"])
def test_no_subnet_begins_where_no_network_can_be(kind: str, start: str) -> None:
    assert causes(subnet(kind, startAddress=start)) == ["Invalid spec.startAddress"]


def test_a_policy_has_a_bounded_number_of_entries() -> None:
    def policy(count: int, field: str = "ingress", peers: str = "from") -> JsonObject:
        block = {"cidr": "10.0.0.0/8", "except": [f"10.{n >> 8}.{n & 255}.0/24" for n in range(count)]}
        return make("NetworkPolicy", {"selector": {}, field: [{peers: [{"ipBlock": block}]}]})

    assert causes(policy(MAX_ENTRIES - 2)) == []
    assert causes(policy(MAX_ENTRIES - 1)) == ["TooMany spec.ingress"]
    (error,) = errors_of(policy(30_000, "egress", "to"))
    assert (error.kind, error.path) == ("TooMany", "spec.egress")
    assert "at most 2000 rules, ports, peers and exceptions together, and has 30002" in error.detail
    assert "use larger ranges, or several policies" in error.detail
    large = policy(30_000)
    assert causes({**large, "metadata": {**large["metadata"], "labels": {"a": "b"}}}, large) == [], "it existed before"


def test_ranges_of_a_network_never_change() -> None:
    old = network({"ipv4Range": "10.0.0.0/16"})
    assert causes(network({"ipv4Range": "10.1.0.0/16"}), old) == ["Invalid spec.ipam.ipv4Range"]
    assert causes(network(), old) == ["Invalid spec.ipam.ipv4Range"]


def subnet(kind: str, **changes: Any) -> JsonObject:
    base = {"subnetClass": "private", "networkContext": {"name": "c"}, "location": {"name": "dfw"}, "ipFamily": "IPv4"}
    return make(kind, {**base, **changes})


@pytest.mark.parametrize("kind", ["SubnetClaim", "Subnet"])
def test_subnets(kind: str) -> None:
    assert causes(subnet(kind)) == []
    assert causes(subnet(kind, startAddress="fd00::1")) == ["Invalid spec.startAddress"]
    assert causes(subnet(kind, prefixLength=64)) == ["Invalid spec.prefixLength"]
    assert causes(subnet(kind, ipFamily="IPv6", prefixLength=64)) == []
    assert causes(subnet(kind, ipFamily="IPv6"), subnet(kind)) == ["Invalid spec.ipFamily"]


@pytest.mark.parametrize("kind", ["NetworkBinding", "NetworkContext"])
def test_a_network_in_a_place_stays_there(kind: str) -> None:
    here = make(kind, {"network": {"name": "default"}, "location": {"name": "dfw"}})
    there = make(kind, {"network": {"name": "default"}, "location": {"name": "sea"}})
    assert causes(here) == []
    assert causes(there, here) == ["Invalid spec.location"]
    assert causes(make(kind, {"network": {"name": "A B"}})) == ["Required spec.location", "Invalid spec.network.name"]


def test_traffic_policies() -> None:
    peers = [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}, {"namespaceSelector": {"matchLabels": {"a": "-"}}}]
    policy = make("NetworkPolicy", {"selector": {}, "egress": [{"to": peers, "ports": [{"port": 0}]}]})
    assert causes(policy) == [
        "Invalid spec.egress[0].ports[0].port",
        "Forbidden spec.egress[0].to[0]",
        "Invalid spec.egress[0].to[1].namespaceSelector.matchLabels",
    ]
    assert causes(make("NetworkPolicy", {"selector": {}, "ingress": [{}]})) == []
