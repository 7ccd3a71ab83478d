"""Names of objects that the datapath creates: short, unique, and enough to identify the owner of an object."""

from __future__ import annotations

from hashlib import sha256
from ipaddress import IPv6Address
from typing import Final

END_PREFIX: Final = "p"
UPLINK: Final = "uplink"
TUNNEL: Final = "tunnel"
EGRESS: Final = "egress"
"""A router namespace's link to the node's egress namespace, where the other end has a name with `LEG_PREFIX`."""
LEG_PREFIX: Final = "e"
OUTSIDE_PREFIX: Final = "o"
EGRESS_MAC: Final = "02:74:61:72:6d:65"
EGRESS_HOP: Final = "fe80::e"
ROUTER_HOP: Final = "fe80::1"
"""The two ends of that link, as next hops of routes of both families."""
INGRESS: Final = "ingress"
"""A router namespace's link to the node's ingress namespace, where the other end has a name with this prefix."""
INGRESS_LEG_PREFIX: Final = "i"
NODE_LINK: Final = "node"
"""The ingress namespace's link to the node's own namespace."""
ROUTER_MAC: Final = "02:74:61:72:6d:63"
"""The router's hardware address on every pod's link, each of which is a separate segment."""


def router_name(network: str) -> str:
    """Return the file name of a Network's router namespace."""
    return _digest(network, 12)


def sandbox_mark(sandbox_id: str) -> str:
    """Return the prefix of the names of all links of a sandbox."""
    return END_PREFIX + _digest(sandbox_id, 12)


def end_name(sandbox_id: str, position: int) -> str:
    """Return the name of the router's end of a pod's interface."""
    return f"{sandbox_mark(sandbox_id)}{position:02x}"


def uplinks_prefix(run_dir: str) -> str:
    """Return the prefix of the names of the node's ends of all uplinks."""
    return f"tu{_digest(run_dir, 4)}"


def host_table(run_dir: str) -> str:
    """Return the name of the nftables table in the node's own namespace."""
    return f"tarmac-{_digest(run_dir, 4)}"


def encrypted_link(run_dir: str) -> str:
    """Return the name of the link in the node's own namespace that encrypts packets to other cities."""
    return f"tw{_digest(run_dir, 8)}"


def leg_name(router: str) -> str:
    """Return the name of the egress namespace's end of a router namespace's link."""
    return f"{LEG_PREFIX}{router}"


def ingress_leg_name(router: str) -> str:
    """Return the name of the ingress namespace's end of a router namespace's link."""
    return f"{INGRESS_LEG_PREFIX}{router}"


def ingress_link(run_dir: str) -> str:
    """Return the name of the node's end of the link to its ingress namespace."""
    return f"ti{_digest(run_dir, 8)}"


def outside_name(interface: str) -> str:
    """Return the name of the egress namespace's link on an interface of the node."""
    return f"{OUTSIDE_PREFIX}{_digest(interface, 8)}"


def outside_mac(node_address: str, interface: str) -> str:
    """Return the hardware address of that link."""
    return _mac(f"{node_address}\0{interface}")


def virtual_name(interface: str, address: str) -> str:
    """Return the name of the egress namespace's dedicated link of an address with its own hardware address."""
    own = f"{interface}\0{address}"
    return f"{OUTSIDE_PREFIX}{_digest(own, 12)}"


def virtual_mac(address: str) -> str:
    """Return the hardware address of that link: the same on every node, so that no host outside notices a move."""
    return _mac(f"virtual\0{address}")


def interface_mac(sandbox_id: str, position: int) -> str:
    """Return a hardware address for an interface without a given one."""
    return _mac(f"{sandbox_id}\0{position}")


def tunnel_mac(vni: int, node_address: str) -> str:
    """Return the hardware address of a node's tunnel end. Every node can compute those of its peers."""
    return _mac(f"{vni}\0{node_address}")


def link_local(mac: str) -> str:
    """Return the link-local IPv6 address derived from a hardware address (EUI-64)."""
    first, *others = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes((first ^ 2, *others[:2], 0xFF, 0xFE, *others[2:]))
    return str(IPv6Address(bytes.fromhex("fe80000000000000") + identifier))


def tunnel_gateway(mac: str) -> str:
    """Return the next hop that represents a tunnel end, for routes of both families."""
    return str(IPv6Address((0xFE80 << 112) | int(mac.replace(":", ""), 16)))


def _mac(seed: str) -> str:
    return f"02:{sha256(seed.encode()).digest()[:5].hex(':')}"


def _digest(value: str, length: int) -> str:
    return sha256(value.encode()).hexdigest()[:length]
