"""How large a packet of a network may be at a place: what the network asks for, or what its nodes can carry.

Between nodes a packet travels inside another: Ethernet, VXLAN, UDP and IP headers come on top, 50 bytes of them where
nodes speak IPv4 to each other and 70 where they speak IPv6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.base.digits import whole

_TUNNEL: Final = {4: 50, 6: 70}
_LARGEST: Final = 65_535


def packet_size(wanted: int, nodes: Iterable[Mapping[str, Any]]) -> int:
    """The largest packet that works among these Nodes; those that do not say what they carry are taken to carry it."""
    return min([wanted, *(size for node in nodes if (size := _carried(node)))])


def _carried(node: Mapping[str, Any]) -> int:
    stated: str = (node["metadata"].get("annotations") or {}).get(ANNOTATION_UNDERLAY_MTU, "")
    size = whole(stated, _LARGEST)
    if size is None:
        return 0
    addresses = (node.get("status") or {}).get("addresses") or ()
    internal = next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
    return size - _TUNNEL[_version(internal)]


def _version(address: str) -> int:
    try:
        return ip_address(address).version
    except ValueError:
        return 6  # the larger header is the safe guess
