"""Networks with common addresses are not attached together; all others are."""

from __future__ import annotations

import pytest

from tarmac.api.compute.instance import NetworkInterface, NetworkReference
from tarmac.api.networking.network import IPAM, Network, NetworkSpec, NetworkStatus
from tarmac.api.shared import IPFamily, ObjectMeta
from tarmac.decide import reasons
from tarmac.decide.addresses import overlap

BOTH: list[IPFamily] = ["IPv4", "IPv6"]


def network(ipv4: str, ipv6: str = "", *, given: bool = True) -> Network:
    ipam = IPAM("Auto", ipv4, ipv6) if given else IPAM("Auto")
    families: list[IPFamily] = ["IPv4", "IPv6"] if ipv6 else ["IPv4"]
    status = None if given else NetworkStatus(ipv4_range=ipv4, ipv6_range=ipv6)
    return Network(ObjectMeta("n"), NetworkSpec(ipam, families), status)


NETWORKS = {
    "default/wide": network("10.128.0.0/9"),
    "default/narrow": network("10.200.0.0/16"),
    "default/apart": network("192.168.0.0/16"),
    "other/wide": network("10.128.0.0/9", given=False),
    "default/dual": network("172.16.0.0/12", "fd20:1::/48"),
    "default/dual2": network("172.16.0.0/16", "fd20:2::/48"),
    "default/unknown": network("", given=False),
    "default/nonsense": network("10.0.0.0/99"),
}


def interfaces(*names: str) -> list[NetworkInterface]:
    """Return interfaces on `network`, `namespace/network` or `network:IPv6`."""
    found: list[NetworkInterface] = []
    for index, name in enumerate(names):
        key, _, family = name.partition(":")
        namespace, _, own = key.rpartition("/")
        families: list[IPFamily] = [each for each in BOTH if each == family]
        reference = NetworkReference(own, namespace)
        found.append(NetworkInterface(name=f"eth{index}", network=reference, ip_families=families))
    return found


@pytest.mark.parametrize(
    ("names", "index", "words"),
    [
        (("wide", "narrow"), 1, "default/wide (10.128.0.0/9) and default/narrow (10.200.0.0/16), which overlap"),
        (("narrow", "wide"), 1, "default/narrow (10.200.0.0/16) and default/wide (10.128.0.0/9), which overlap"),
        (("wide", "other/wide"), 1, "and other/wide (10.128.0.0/9), which overlap"),
        (("apart", "wide", "dual", "narrow"), 3, "interfaces eth1 and eth3"),
        (
            ("wide", "wide", "narrow"),
            2,
            "default/wide (10.128.0.0/9) and default/narrow (10.200.0.0/16), which overlap",
        ),
        (("dual", "dual2"), 1, "172.16.0.0/16"),
    ],
)
def test_two_that_share_addresses_are_named_with_their_ranges(names: tuple[str, ...], index: int, words: str) -> None:
    found = overlap("default", interfaces(*names), NETWORKS.get)
    assert found is not None
    assert (found.position, found.refusal.reason) == (index, reasons.NETWORK_RANGES_OVERLAP)
    assert words in found.refusal.message
    assert f"Attach eth{index} to a Network" in found.refusal.change


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("wide",),
        ("wide", "wide"),
        ("dual:IPv6", "apart", "dual:IPv6"),
        ("wide", "apart", "dual"),
        ("dual:IPv4", "dual:IPv6"),
        ("dual:IPv6", "dual2:IPv4", "apart"),
        ("wide", "unknown"),
        ("wide", "missing"),
        ("wide", "nonsense"),
    ],
)
def test_disjoint_and_unknown_networks_do_not_overlap(names: tuple[str, ...]) -> None:
    assert overlap("default", interfaces(*names), NETWORKS.get) is None
