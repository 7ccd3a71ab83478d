"""The addresses that stand for nodes inside networks, which every node can work out for every other.

Networks may have any range, and so may nodes; these are of ranges that are no network's and nowhere in the world.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Final

NODES: Final = ("240.0.0.0/4", "fd74:6172:6d63:fffe::/64")
"""By family."""


def node_marks(node_address: str) -> tuple[str, str]:
    """Those of the node whose tunnels end at an address.

    The last 28 bits of an address of IPv4 tell nodes apart; of IPv6, where they may all end alike, a digest does.
    """
    four, six = (ip_network(each) for each in NODES)
    own = ip_address(node_address)
    digest = int.from_bytes(sha256(own.packed).digest()[:8])
    return str(four[(int(own) if own.version == 4 else digest) % four.num_addresses]), str(six[digest])
