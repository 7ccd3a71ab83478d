"""Captures all frames on a city's link to the other cities."""

from __future__ import annotations

import socket
from contextlib import suppress

from tarmac.datapath.hosts import HostUnderlay


class Wire:
    """A capture on the link of one city, while the block lasts."""

    def __init__(self, underlay: HostUnderlay, city: str) -> None:
        (link,) = (each.link for each in underlay.cities if each.name == city)
        self._eye = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._eye.bind((link, 0))
        self._eye.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
        self._eye.setblocking(False)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._eye.close()

    def frames(self) -> list[bytes]:
        """Return the frames since the last call."""
        found: list[bytes] = []
        with suppress(BlockingIOError):
            while True:
                found.append(self._eye.recv(1 << 16))
        return found


def udp_port(frame: bytes) -> int:
    """The port of UDP that an IPv4 frame goes to; 0 when it is none."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
        return 0
    return int.from_bytes(frame[14 + (frame[14] & 15) * 4 + 2 :][:2], "big")
