"""The names and addresses a node may claim: in its status, and in a serving certificate.

A client that can set a node's addresses can redirect the server and other nodes, and obtain certificates for them. So a
name must be the node's own name or a subdomain of it, an address must be a valid unicast address of a host, and neither
may belong to the API server, to a Service or to another node. `holder` looks up those; it is called last.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import msgspec

Holder = Callable[[str], str | None]
"""Returns the other holder of a name or an address, as in `it is ...`; None when there is none."""

LABEL_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
"""On a Node that, according to an administrator, shares its host and so its addresses with an API server."""

_ADDRESSES: Final = frozenset(("InternalIP", "ExternalIP"))
_NAMES: Final = frozenset(("Hostname", "InternalDNS", "ExternalDNS"))
_CLUSTER_NAMES: Final = frozenset(("localhost", "kubernetes", "kubernetes.default", "svc", "cluster.local"))
_CLUSTER_DOMAINS: Final = (".localhost", ".svc", ".cluster.local")


class NodeAddress(msgspec.Struct):
    """An entry of a Node's `status.addresses`."""

    type: str = ""
    address: str = ""


class _Status(msgspec.Struct):
    addresses: list[NodeAddress] | None = None


class _Node(msgspec.Struct):
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Node).decode


def read_addresses(raw: bytes | msgspec.Raw) -> list[NodeAddress]:
    """Return the addresses in an encoded Node's status."""
    status = _decode(raw).status
    return (status.addresses if status else None) or []


def status_objection(node: str, kind: str, address: str, holder: Holder) -> str | None:
    """Return the reason why a node may not have an entry of this type in `status.addresses`; None when it may."""
    if kind in _ADDRESSES:
        return address_objection(address, holder)
    if kind in _NAMES:
        return name_objection(node, address, holder)
    return f'"{kind}" is no type of address; there are {", ".join(sorted(_ADDRESSES | _NAMES))}'


def name_objection(node: str, name: str, holder: Holder) -> str | None:
    """Return the reason why a node may not have this name; None when it may."""
    plain = name.lower().removesuffix(".")
    if plain != node and not plain.startswith(f"{node}."):
        return f'the name "{name}" is neither "{node}" nor below it'
    if plain in _CLUSTER_NAMES or plain.endswith(_CLUSTER_DOMAINS):
        return f'the name "{name}" belongs to the cluster'
    other = holder(plain)
    return None if other is None else f'the name "{name}" is {other}'


def address_objection(text: str, holder: Holder) -> str | None:
    """Return the reason why a node may not have this address; None when it may."""
    address = canonical(text)
    if address is None:
        return f'"{text}" is not an IP address'
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local:
        return f"the address {text} is no machine's own: loopback, link-local, multicast and 0 are refused"
    if isinstance(address, IPv4Address) and address.is_reserved:
        return f"the address {text} is reserved"
    other = holder(str(address))
    return None if other is None else f"the address {text} is {other}"


def canonical(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address in canonical form, an IPv4-mapped one as IPv4; None if it is invalid or has a scope id."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id else address.ipv4_mapped or address
    return address
