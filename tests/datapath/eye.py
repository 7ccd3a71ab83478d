"""Captures frames on a segment: arrival time, port of the bridge, and the addresses that the sender claims."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from tarmac.datapath.linux import namespaces

_TIMESTAMPS, _FORCED_BUFFER = 35, 33  # SO_TIMESTAMPNS, SO_RCVBUFFORCE
_OUTGOING = 4
_STATISTICS = (263, 6)  # SOL_PACKET, PACKET_STATISTICS: received and dropped frames
_ADVERTISEMENT, _ICMP6_ERRORS = 136, 127
_ICMP_ERRORS = (3, 4, 5, 11, 12)


@dataclass(slots=True)
class Frame:
    """A frame that a gateway sent."""

    at: float
    port: str
    hardware: str
    source: str
    content: bytes = field(repr=False)

    @property
    def speaks_as(self) -> set[str]:
        """Its source; in advertisements also their target, in errors also the receiver of the quoted packet."""
        return {self.source, *_told_of(self.content)}


class Eye:
    """A thread that captures frames until closed. `ports` are names of links of the bridge in a namespace."""

    def __init__(self, namespace: Path, ports: Collection[str]) -> None:
        self.frames: list[Frame] = []
        self.missed = 0  # frames that were dropped, known after the capture
        self._ports = ports
        self._socket = _inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, 1 << 26)
        self._socket.settimeout(0.2)
        self._closing = False
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    def look_away(self) -> None:
        """Process the frames captured so far, and stop."""
        self._closing = True
        self._watching.join()
        self._socket.close()  # may be called twice

    def _watch(self) -> None:
        while not self._closing:
            self._look()
        self._socket.settimeout(0)
        while self._look():
            pass
        _, self.missed = struct.unpack("II", self._socket.getsockopt(*_STATISTICS, 8))

    def _look(self) -> bool:
        """Capture one frame; return True if there was one."""
        try:
            content, extra, _, place = self._socket.recvmsg(65535, 64)
        except (TimeoutError, BlockingIOError):
            return False
        port, _, kind = place[0], place[1], place[2]
        if port in self._ports and kind != _OUTGOING:
            seconds, nanoseconds = struct.unpack("=qq", extra[0][2])
            at = seconds + nanoseconds / 1e9
            self.frames.append(Frame(at, port, content[6:12].hex(":"), _source(content), content))
        return True


def _inside(namespace: Path, make: Callable[[], socket.socket]) -> socket.socket:
    """Make a socket in a namespace, in a thread of its own, since other work must not run in a foreign namespace."""
    made: list[socket.socket] = []

    def there() -> None:
        namespaces.enter(str(namespace))
        made.append(make())

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return made[0]


def _source(frame: bytes) -> str:
    """Return the source that a frame claims: the sender of IP, or of ARP."""
    kind = frame[12:14].hex()
    places = {"0800": (26, 30), "0806": (28, 32), "86dd": (22, 38)}
    begin, end = places.get(kind, (12, 14))
    return str(ip_address(frame[begin:end])) if kind in places else f"protocol {kind}"


def _told_of(frame: bytes) -> list[str]:
    """Return further addresses that a frame claims."""
    kind = frame[12:14].hex()
    if kind == "0800" and frame[23] == socket.IPPROTO_ICMP:
        message = frame[14 + 4 * (frame[14] & 15) :]
        return [str(ip_address(message[24:28]))] if message[0] in _ICMP_ERRORS and len(message) >= 28 else []
    if kind == "86dd" and frame[20] == socket.IPPROTO_ICMPV6:
        message = frame[54:]
        if message[0] == _ADVERTISEMENT:
            return [str(ip_address(message[8:24]))]
        return [str(ip_address(message[32:48]))] if message[0] <= _ICMP6_ERRORS and len(message) >= 48 else []
    return []
