"""Egress links of an egress namespace: one macvlan on each interface of the node that leads outside.

The link has its own hardware address and no addresses but those that the node serves, and a dummy one that no host has:
with the last address of a link the kernel would remove all routes through it.

An address may have a dedicated link instead, with a hardware address that is derived from it and the same on every
node. Such a link is up only on the node that serves the address; its routes are lost with it, and restored with the
address.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

from tarmac.datapath.egress import OutsideLink
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import outside_mac, outside_name, virtual_mac, virtual_name
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import Route

DUMMY_ADDRESS: Final = "192.0.0.8"
"""The address that a host without an IPv4 address may use in errors that it sends (RFC 7600)."""

_ALL_NODES: Final = "ff02::1"
ARP, IPV6 = 0x0806, 0x86DD
_BROADCAST_MAC: Final = "ff:ff:ff:ff:ff:ff"


def ensure_outside(host: Host, namespace: Path, netlink: Netlink, node_address: str, interface: str) -> links.Link:
    """Return the namespace's link on an interface of the node. Raises OSError if the interface does not exist."""
    name = outside_name(interface)
    found = links.link(netlink, name)
    if found is None:
        host.add_macvlan(interface, name, outside_mac(node_address, interface), namespace)
        found = links.link(netlink, name)
        if found is None:
            raise OSError(f"the link {name} has vanished")
    netlink.request([links.setting(found.index), routing.address(found.index, DUMMY_ADDRESS)])
    return found


def ensure_virtual(host: Host, namespace: Path, netlink: Netlink, interface: str, address: str) -> links.Link:
    """Return the dedicated link of an address, down unless it is served here.

    Raises OSError if there is no such interface.
    """
    name = virtual_name(interface, address)
    found = links.link(netlink, name)
    if found is None:
        host.add_macvlan(interface, name, virtual_mac(address), namespace)
        found = links.link(netlink, name)
        if found is None:
            raise OSError(f"the link {name} has vanished")
    return found


def outside_routes(outside: OutsideLink, link: int, table: int) -> set[Route]:
    """Return the routes to a segment, and through its router, if any, to the rest of the world."""
    found = {Route(outside.segment, link, "", table)}
    if outside.gateway:
        everywhere = "::/0" if ":" in outside.gateway else "0.0.0.0/0"
        found.add(Route(everywhere, link, outside.gateway, table))
    return found


class Announcer:
    """Announces addresses on segments. May be created and used in any thread; its packets pass no rules."""

    def __init__(self, namespace: Path) -> None:
        with namespaces.inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)

    def announce(self, link: str, mac: str, address: str) -> None:
        """Announce by ARP request and reply: some hosts accept only one of the two."""
        for frame in announcements(mac, address):
            self._socket.sendto(frame, (link, IPV6 if ":" in address else ARP))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def announcements(mac: str, address: str) -> list[bytes]:
    """Return the frames that announce an address, unsolicited."""
    if ":" in address:
        return [_advertisement(mac, address)]
    own = bytes.fromhex(mac.replace(":", "")) + socket.inet_aton(address)
    broadcast = bytes.fromhex(_BROADCAST_MAC.replace(":", ""))
    head = broadcast + own[:6] + struct.pack(">H", ARP)
    return [
        head
        + struct.pack(">HHBBH", 1, 0x0800, 6, 4, question)
        + own
        + broadcast * (question - 1)
        + bytes(6) * (2 - question)
        + socket.inet_aton(address)
        for question in (1, 2)
    ]


def _advertisement(mac: str, address: str) -> bytes:
    own, packed = bytes.fromhex(mac.replace(":", "")), socket.inet_pton(socket.AF_INET6, address)
    to = socket.inet_pton(socket.AF_INET6, _ALL_NODES)
    override = 0x20000000
    body = struct.pack(">BBHI", 136, 0, 0, override) + packed + bytes((2, 1)) + own
    body = body[:2] + checksum(packed + to + struct.pack(">II", len(body), socket.IPPROTO_ICMPV6) + body) + body[4:]
    header = struct.pack(">IHBB", 6 << 28, len(body), socket.IPPROTO_ICMPV6, 255) + packed + to
    return bytes.fromhex("333300000001") + own + struct.pack(">H", IPV6) + header + body


def checksum(data: bytes) -> bytes:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)
