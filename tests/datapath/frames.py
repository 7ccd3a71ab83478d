"""Hand-made Ethernet frames, for messages that no honest sender would send."""

from __future__ import annotations

import socket
import struct


def udp_frame(to_mac: str, from_mac: str, source: str, destination: str, port: int, payload: bytes) -> bytes:
    """Encode a UDP packet of either family."""
    six = ":" in source
    datagram = struct.pack(">HHHH", 4000, port, 8 + len(payload), 0) + payload
    family = socket.AF_INET6 if six else socket.AF_INET
    ends = socket.inet_pton(family, source), socket.inet_pton(family, destination)
    if not six:
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, socket.IPPROTO_UDP, 0) + b"".join(ends)
        header = header[:10] + _checksum(header) + header[12:]
        return _ethernet(to_mac, from_mac, 0x0800) + header + datagram
    pseudo = b"".join(ends) + struct.pack(">II", len(datagram), socket.IPPROTO_UDP)
    datagram = datagram[:6] + _checksum(pseudo + datagram) + datagram[8:]
    header = struct.pack(">IHBB", 6 << 28, len(datagram), socket.IPPROTO_UDP, 64) + b"".join(ends)
    return _ethernet(to_mac, from_mac, 0x86DD) + header + datagram


def icmp_frame(to_mac: str, from_mac: str, source: str, destination: str, kind: int, body: bytes) -> bytes:
    """Encode an ICMP message of either family; `body` follows type, code and checksum. Its hop limit is the maximum."""
    six = ":" in source
    family = socket.AF_INET6 if six else socket.AF_INET
    ends = b"".join(socket.inet_pton(family, each) for each in (source, destination))
    message = struct.pack(">BBH", kind, 1 if kind == 5 else 0, 0) + body
    if not six:
        message = message[:2] + _checksum(message) + message[4:]
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(message), 1, 0, 255, socket.IPPROTO_ICMP, 0) + ends
        header = header[:10] + _checksum(header) + header[12:]
        return _ethernet(to_mac, from_mac, 0x0800) + header + message
    pseudo = ends + struct.pack(">II", len(message), socket.IPPROTO_ICMPV6)
    message = message[:2] + _checksum(pseudo + message) + message[4:]
    header = struct.pack(">IHBB", 6 << 28, len(message), socket.IPPROTO_ICMPV6, 255) + ends
    return _ethernet(to_mac, from_mac, 0x86DD) + header + message


def arp_reply(from_mac: str, claimed: str, to_mac: str, to: str) -> bytes:
    """Encode an ARP reply: `claimed` is at `from_mac`."""
    head = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 2)
    sender = _mac(from_mac) + socket.inet_aton(claimed)
    return _ethernet(to_mac, from_mac, 0x0806) + head + sender + _mac(to_mac) + socket.inet_aton(to)


def _ethernet(to_mac: str, from_mac: str, kind: int) -> bytes:
    return _mac(to_mac) + _mac(from_mac) + struct.pack(">H", kind)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _checksum(data: bytes) -> bytes:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)
