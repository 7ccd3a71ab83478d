"""Reserved addresses of the datapath, from ranges that are used by no network and not routed on the internet.

Networks may have almost any range, and so may nodes. So nodes have separate addresses inside networks, which every node
can compute for every other; and on each node, further addresses identify its uplinks into networks.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Final

from tarmac.api.networking.names import NODE_MARKS as NODES
from tarmac.api.networking.names import UPLINKS

__all__ = ["NODES", "UPLINKS", "is_reserved", "node_marks", "probe_address"]

_RESERVED: Final = tuple(ip_network(each) for each in (*NODES, *UPLINKS))


@lru_cache(maxsize=1 << 16)
def is_reserved(address: str) -> bool:
    """Return True if an address is in these ranges: user-defined endpoints must not lead there.

    Cached, because every endpoint is checked at each change.
    """
    parsed = ip_address(address)
    return any(parsed in each for each in _RESERVED)


def node_marks(node_address: str) -> tuple[str, str]:
    """Return the IPv4 and IPv6 marks of the node with this tunnel endpoint.

    The last 28 bits of an IPv4 address distinguish nodes; IPv6 addresses may all end alike, so a digest is used.
    """
    four, six = (ip_network(each) for each in NODES)
    own = ip_address(node_address)
    digest = int.from_bytes(sha256(own.packed).digest()[:8])
    return str(four[(int(own) if own.version == 4 else digest) % four.num_addresses]), str(six[digest])


@lru_cache(maxsize=1 << 14)
def probe_address(node_address: str) -> str:
    """Return the address inside every network at which the agent of the node with this tunnel endpoint answers probes.

    It must differ from `node_marks`: those are the source of the node's own packets into its router namespaces, and a
    kernel drops incoming packets with one of its own addresses as source.
    """
    digest = sha256(b"probe" + ip_address(node_address).packed).digest()
    return str(ip_network(NODES[1])[int.from_bytes(digest[:8])])
