"""Links by netlink: veth pairs, tunnels, and the listing of all links, taps included (`taps`)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tarmac.api.networking.ports import TUNNEL_PORT
from tarmac.datapath.linux.netlink import (
    CREATE,
    EXCLUSIVE,
    EXISTS,
    GONE,
    Netlink,
    NetlinkMessage,
    attribute,
    attributes,
    nested,
    number,
    text,
)

_NEWLINK: Final = 16
_DELLINK: Final = 17
_GETLINK: Final = 18
_INFO: Final = struct.Struct("=BxHiII")  # family, type, index, flags, changed flags
_UP: Final = 0x1
_CARRIER: Final = 0x10000  # IFF_LOWER_UP: the other end is connected

_ADDRESS, _NAME, _MTU, _INFO_LINK, _NET_NS_FD, _ALIAS, _STATS = 1, 3, 4, 18, 28, 20, 23
_COUNTERS: Final = struct.Struct("=QQQQ")  # packets received, packets sent, bytes received, bytes sent
_KIND, _DATA = 1, 2
_VETH_PEER: Final = 1
_VXLAN_ID, _VXLAN_LOCAL, _VXLAN_LEARNING, _VXLAN_PORT, _VXLAN_LOCAL6 = 1, 4, 7, 15, 17

_LINK: Final = 5
_MACVLAN_MODE, _BRIDGE = 1, 4

_WIREGUARD: Final = nested(_INFO_LINK, text(_KIND, "wireguard"))


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it is. `alias` is free text that the kernel keeps with it."""

    index: int
    name: str
    mtu: int
    up: bool
    carrier: bool = True  # while it is up
    alias: str = ""
    kind: str = ""
    data: bytes = b""
    mac: str = ""
    received: int = 0  # bytes
    transmitted: int = 0


def veth(name: str, mac: str, mtu: int, peer: str, peer_mac: str, peer_namespace: int) -> NetlinkMessage:
    """Create a veth pair: one end here, the other in the namespace of an open file."""
    other = _INFO.pack(0, 0, 0, 0, 0) + text(_NAME, peer) + number(_MTU, mtu) + number(_NET_NS_FD, peer_namespace)
    other += attribute(_ADDRESS, _hardware(peer_mac)) if peer_mac else b""
    info = nested(_INFO_LINK, text(_KIND, "veth"), nested(_DATA, attribute(_VETH_PEER, other)))
    own = text(_NAME, name) + number(_MTU, mtu) + attribute(_ADDRESS, _hardware(mac))
    return NetlinkMessage(_NEWLINK, CREATE | EXCLUSIVE, _INFO.pack(0, 0, 0, 0, 0) + own + info, EXISTS)


def vxlan(
    name: str, mac: str, mtu: int, vni: int, local: str, namespace: int, port: int = TUNNEL_PORT
) -> NetlinkMessage:
    """Create a tunnel end in the namespace of an open file; its outer packets stay in this socket's namespace."""
    info = nested(_INFO_LINK, text(_KIND, "vxlan"), nested(_DATA, _vxlan_data(vni, local, port)))
    own = text(_NAME, name) + number(_MTU, mtu) + attribute(_ADDRESS, _hardware(mac)) + number(_NET_NS_FD, namespace)
    return NetlinkMessage(_NEWLINK, CREATE | EXCLUSIVE, _INFO.pack(0, 0, 0, 0, 0) + own + info, EXISTS)


def macvlan(name: str, mac: str, parent: int, namespace: int) -> NetlinkMessage:
    """Create a macvlan in the namespace of an open file, with its own hardware address."""
    info = nested(_INFO_LINK, text(_KIND, "macvlan"), nested(_DATA, number(_MACVLAN_MODE, _BRIDGE)))
    own = text(_NAME, name) + attribute(_ADDRESS, _hardware(mac)) + number(_LINK, parent)
    body = _INFO.pack(0, 0, 0, 0, 0) + own + number(_NET_NS_FD, namespace) + info
    return NetlinkMessage(_NEWLINK, CREATE | EXCLUSIVE, body, EXISTS)


def wireguard(name: str) -> NetlinkMessage:
    """Create a WireGuard link. Fails if the kernel lacks the driver."""
    return NetlinkMessage(_NEWLINK, CREATE | EXCLUSIVE, _INFO.pack(0, 0, 0, 0, 0) + text(_NAME, name) + _WIREGUARD)


def is_vxlan(link: Link, vni: int, local: str, port: int = TUNNEL_PORT) -> bool:
    """Return True if a link is this tunnel end."""
    wanted, found = attributes(_vxlan_data(vni, local, port)), attributes(link.data)
    return link.kind == "vxlan" and all(found.get(kind) == value for kind, value in wanted.items())


def setting(index: int, *, up: bool = True, mtu: int = 0, alias: str = "", mac: str = "") -> NetlinkMessage:
    """Change a link."""
    flag = _UP if up else 0
    body = _INFO.pack(0, 0, index, flag, _UP)
    body += attribute(_ADDRESS, _hardware(mac)) if mac else b""
    body += number(_MTU, mtu) if mtu else b""
    body += attribute(_ALIAS, alias.encode()) if alias else b""
    return NetlinkMessage(_NEWLINK, 0, body)


def deletion(index: int) -> NetlinkMessage:
    """Remove a link, and the other end of a pair."""
    return NetlinkMessage(_DELLINK, 0, _INFO.pack(0, 0, index, 0, 0), GONE)


def link(netlink: Netlink, name: str) -> Link | None:
    """Return the link of this name."""
    found = netlink.get(_GETLINK, _INFO.pack(0, 0, 0, 0, 0) + text(_NAME, name))
    return None if found is None else _read(found)


def settle(netlink: Netlink, name: str) -> None:
    """Make the kernel notice at once that both ends of a pair are up: by itself it may take a second before it sends.

    A query for a single link has that effect.
    """
    link(netlink, name)


def links(netlink: Netlink) -> Iterator[Link]:
    """Yield every link of the socket's namespace."""
    for _, body in netlink.dump(_GETLINK, _INFO.pack(0, 0, 0, 0, 0)):
        yield _read(body)


def _vxlan_data(vni: int, local: str, port: int) -> bytes:
    six = ":" in local
    packed = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, local)
    return (
        number(_VXLAN_ID, vni)
        + attribute(_VXLAN_LOCAL6 if six else _VXLAN_LOCAL, packed)
        # No learning: a forged packet could redirect the traffic of others.
        + attribute(_VXLAN_LEARNING, b"\0")
        + attribute(_VXLAN_PORT, struct.pack(">H", port))
    )


def _read(body: bytes) -> Link:
    _, _, index, flags, _ = _INFO.unpack_from(body)
    found = attributes(body, _INFO.size)
    info = attributes(found.get(_INFO_LINK, b""))
    _, _, received, transmitted = _COUNTERS.unpack_from(found.get(_STATS, bytes(_COUNTERS.size)))
    return Link(
        index=index,
        name=_string(found.get(_NAME, b"")),
        mtu=int.from_bytes(found.get(_MTU, b""), "little"),
        up=bool(flags & _UP),
        carrier=bool(flags & _CARRIER),
        alias=_string(found.get(_ALIAS, b"")),
        kind=_string(info.get(_KIND, b"")),
        data=info.get(_DATA, b""),
        mac=found.get(_ADDRESS, b"").hex(":"),
        received=received,
        transmitted=transmitted,
    )


def _string(value: bytes) -> str:
    return os.fsdecode(value.rstrip(b"\0"))


def _hardware(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
