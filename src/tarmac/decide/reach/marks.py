"""Addresses of the datapath's own, of ranges that are no network's and nowhere in the world.

Networks may have almost any range, and so may nodes. So inside networks other addresses stand for nodes, which every
node can work out for every other; and on each node, others for its ways into networks.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Final

from tarmac.api.networking.names import NODE_MARKS as NODES
from tarmac.api.networking.names import UPLINKS

__all__ = ["NODES", "UPLINKS", "is_reserved", "node_marks"]

_RESERVED: Final = tuple(ip_network(each) for each in (*NODES, *UPLINKS))


@lru_cache(maxsize=1 << 16)
def is_reserved(address: str) -> bool:
    """Whether an address is of these ranges: what people say must lead nobody there.

    Remembered, since every endpoint is asked about each time that anything changes.
    """
    parsed = ip_address(address)
    return any(parsed in each for each in _RESERVED)


def node_marks(node_address: str) -> tuple[str, str]:
    """Those of the node whose tunnels end at an address.

    The last 28 bits of an address of IPv4 tell nodes apart; of IPv6, where they may all end alike, a digest does.
    """
    four, six = (ip_network(each) for each in NODES)
    own = ip_address(node_address)
    digest = int.from_bytes(sha256(own.packed).digest()[:8])
    return str(four[(int(own) if own.version == 4 else digest) % four.num_addresses]), str(six[digest])
