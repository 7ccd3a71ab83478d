"""Interfaces have routes that do not hide each other, and MTUs that fit their tunnels."""

from __future__ import annotations

import pytest

from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.api.schema import JsonObject
from tarmac.decide.addresses import packet_size, routes_of


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([["10.128.0.0/9"]], [("0.0.0.0/0", "10.128.0.0/9")]),
        (
            [["10.128.0.0/9", "fd20:1::/48"], ["192.168.0.0/16", "fd20:2::/48"]],
            [("0.0.0.0/0", "::/0", "10.128.0.0/9", "fd20:1::/48"), ("192.168.0.0/16", "fd20:2::/48")],
        ),
        ([["fd20:1::/48"], ["10.128.0.0/9"]], [("::/0", "fd20:1::/48"), ("0.0.0.0/0", "10.128.0.0/9")]),
        ([], []),
    ],
)
def test_the_first_of_a_family_leads_everywhere(ranges: list[list[str]], expected: list[tuple[str, ...]]) -> None:
    assert routes_of(ranges) == expected


def node(mtu: str = "", address: str = "198.18.0.2") -> JsonObject:
    annotations = {ANNOTATION_UNDERLAY_MTU: mtu} if mtu else {}
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": address}]
    return {"metadata": {"annotations": annotations}, "status": {"addresses": addresses}}


@pytest.mark.parametrize(
    ("wanted", "nodes", "expected"),
    [
        (1460, [], 1460),
        (1460, [node("1600")], 1460),
        (1460, [node("1500")], 1450),
        (1460, [node("1500", "fd00::1")], 1430),
        (8856, [node("9000"), node("1600")], 1550),
        (1460, [node(), node("nonsense")], 1460),
        (1460, [node("1500", "")], 1430),
        (1460, [node("1500"), node("51"), node("1329"), node("0")], 1280),
        (1460, [node("1500"), node("1500"), node("51")], 1450),
        (1460, [node("1500"), node("1390"), node("1500"), node("1390"), node("1500")], 1450),
        (8856, [node("9000"), node("65535"), node("9000")], 8856),
        (1460, [node("1500"), node("1330")], 1280),
        (1460, [node("1349", "fd00::1")], 1280),
        (1200, [node("1349", "fd00::1")], 1200),
    ],
)
def test_a_packet_fits_into_the_median_underlay(wanted: int, nodes: list[JsonObject], expected: int) -> None:
    assert packet_size(wanted, nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], 1460),
        ([node("1500")], 1390),
        ([node("1500", "fd00::1")], 1350),
        ([node("9000")], 1460),
        ([node("1400", "fd00::1")], 1280),
    ],
)
def test_a_packet_that_is_encrypted_leaves_room_for_it(nodes: list[JsonObject], expected: int) -> None:
    assert packet_size(1460, nodes, encrypted=True) == expected
