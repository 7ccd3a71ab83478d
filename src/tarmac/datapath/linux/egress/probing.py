"""Detects foreign use of an address on its segment, before a node serves it for the first time.

Sends three probes, a tenth of a second apart, without a sender address: neither an ARP probe nor a neighbour
solicitation from the unspecified address changes any neighbour cache. The socket is a raw one, so no rule sees the
answers either.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock
from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.egress.outside import ARP, IPV6, checksum

_ATTEMPTS: Final = 3
_PAUSE: Final = 0.1
_ADVERTISEMENT: Final = 136
_MAX_FRAME: Final = 2048


def probe(namespace: Path, link: str, mac: str, address: str, clock: Clock) -> str:
    """Return the hardware address that answers for an address on a link; empty if none does. Raises OSError."""
    protocol = IPV6 if ":" in address else ARP
    with namespaces.inside(namespace):
        asking = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.htons(protocol))
    with asking:
        asking.bind((link, protocol))
        for _ in range(_ATTEMPTS):
            asking.send(question(mac, address))
            if found := _answer_within_pause(asking, mac, address, clock):
                return found
    return ""


def _answer_within_pause(asking: socket.socket, mac: str, address: str, clock: Clock) -> str:
    until = clock.monotonic() + _PAUSE
    while (left := until - clock.monotonic()) > 0:
        asking.settimeout(left)
        try:
            frame = asking.recv(_MAX_FRAME)
        except TimeoutError:
            break
        found = answerer(frame, address)
        # A packet socket also receives this host's own frames, which would look like a conflict.
        if found and found != mac:
            return found
    return ""


def question(mac: str, address: str) -> bytes:
    """Return the ARP probe or neighbour solicitation for an address."""
    own = bytes.fromhex(mac.replace(":", ""))
    if ":" not in address:
        head = b"\xff" * 6 + own + struct.pack(">HHHBBH", ARP, 1, 0x0800, 6, 4, 1)
        return head + own + bytes(4) + bytes(6) + socket.inet_aton(address)
    target = socket.inet_pton(socket.AF_INET6, address)
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + target[13:]
    body = struct.pack(">BBHI", 135, 0, 0, 0) + target
    pseudo = bytes(16) + group + struct.pack(">II", len(body), socket.IPPROTO_ICMPV6)
    body = body[:2] + checksum(pseudo + body) + body[4:]
    header = struct.pack(">IHBB", 6 << 28, len(body), socket.IPPROTO_ICMPV6, 255) + bytes(16) + group
    return b"\x33\x33" + group[12:] + own + struct.pack(">H", IPV6) + header + body


def answerer(frame: bytes, address: str) -> str:
    """Return the hardware address that claims the address in a frame; empty if the frame does not."""
    kind = int.from_bytes(frame[12:14])
    if ":" not in address:
        names_address = frame[28:32] == socket.inet_aton(address) and frame[20:22] in (b"\0\1", b"\0\2")
        return frame[22:28].hex(":") if kind == ARP and len(frame) >= 42 and names_address else ""
    advertises = frame[20:21] == bytes((socket.IPPROTO_ICMPV6,)) and frame[54:55] == bytes((_ADVERTISEMENT,))
    about = frame[62:78] == socket.inet_pton(socket.AF_INET6, address)
    return frame[6:12].hex(":") if kind == IPV6 and advertises and about else ""
