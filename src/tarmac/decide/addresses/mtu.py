"""The MTU of a network at a Location: the requested one, limited by the MTU of the nodes' underlay.

Between nodes a packet is encapsulated: Ethernet, VXLAN, UDP and IP headers add 50 bytes over IPv4 and 70 over IPv6.
With encryption, WireGuard, UDP and IP headers add 60 or 80 more. An instance has one MTU for all peers, so a network
that is encrypted anywhere has the smaller one.

A node reports the MTU of its underlay, and all nodes of its Location use the median, the lower one of two. A minority
of hostile nodes changes nothing; if a smaller report was true, that node's large packets are lost. `MIN_MTU` bounds the
harm of hostile nodes that are no minority: a report that leaves less counts as that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from statistics import median_low
from typing import Any, Final

from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.base.digits import whole_number

_TUNNEL: Final = {4: 50, 6: 70}
ENCRYPTION_OVERHEAD: Final = {4: 60, 6: 80}
MIN_MTU: Final = 1280  # the minimum of IPv6
MIN_UNDERLAY: Final = MIN_MTU + min(_TUNNEL.values()) + min(ENCRYPTION_OVERHEAD.values())
MAX_UNDERLAY: Final = 65_535


def packet_size(wanted: int, nodes: Iterable[Mapping[str, Any]], *, encrypted: bool = False) -> int:
    """Return the largest MTU that works among most of these Nodes; Nodes without a report do not limit it."""
    sizes = [max(size, MIN_MTU) for node in nodes if (size := _carried(node, encrypted))]
    return min(wanted, median_low(sizes)) if sizes else wanted


def underlay_objection(text: str) -> str:
    """Explain why a node may not state this size for packets of its underlay; empty if it may."""
    size = whole_number(text, MAX_UNDERLAY)
    if size is not None and size >= MIN_UNDERLAY:
        return ""
    return (
        f"must be a whole number from {MIN_UNDERLAY} to {MAX_UNDERLAY}: raise the MTU of the link that has the "
        "node's InternalIP"
    )


def _carried(node: Mapping[str, Any], encrypted: bool) -> int:
    stated: str = (node["metadata"].get("annotations") or {}).get(ANNOTATION_UNDERLAY_MTU, "")
    size = whole_number(stated, MAX_UNDERLAY)
    if size is None:
        return 0
    addresses = (node.get("status") or {}).get("addresses") or ()
    internal = next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
    version = _version(internal)
    return size - _TUNNEL[version] - (ENCRYPTION_OVERHEAD[version] if encrypted else 0)


def _version(address: str) -> int:
    try:
        return ip_address(address).version
    except ValueError:
        return 6  # assume the larger header
