"""UDP datagrams at ports that the kernel's tunnels own, through a raw socket.

A raw socket gets a copy of each datagram after the firewall of this host. A filter in the kernel keeps all other
traffic away from it; the copy still costs time for each datagram, so it is open for a short time only.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from tarmac.agent.portprobes.portmessages import MAGIC, PROBED_PORTS, SIZE

_SO_ATTACH_FILTER: Final = 26
_IPV6_CHECKSUM: Final = 7
_CHECKSUM_OFFSET: Final = 6
_HEAD: Final = struct.Struct(">HHHH")
_MAX_IP_HEAD: Final = 60
# Classic BPF: opcodes, and jumps relative to the next instruction.
_LOAD_IP_HEAD, _LOAD_ZERO, _LOAD_HALF, _LOAD_WORD, _EQUALS, _RETURN = 0xB1, 0x01, 0x48, 0x40, 0x15, 0x06


class RawDatagram(NamedTuple):
    """A datagram: its content, its source, and the port it was sent to."""

    content: bytes
    address: str
    source: int
    port: int


class RawUdp:
    """A raw socket at one address of this host. Raises OSError."""

    def __init__(self, address: str) -> None:
        self._six = ":" in address
        family = socket.AF_INET6 if self._six else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_UDP)
        try:
            # Before it is bound: until the filter is there, the socket queues every datagram of the host.
            _keep_only_probes(self._socket, six=self._six)
            if self._six:
                self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_CHECKSUM, _CHECKSUM_OFFSET)
            self._socket.setblocking(False)
            self._socket.bind((address, 0))
        except BaseException:
            self._socket.close()
            raise

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._socket.fileno() < 0

    def send(self, content: bytes, source: int, address: str, port: int) -> None:
        """Send a datagram; one that cannot be sent is lost."""
        head = _HEAD.pack(source, port, _HEAD.size + len(content), 0)  # IPv4 allows 0 as checksum
        with suppress(OSError):
            self._socket.sendto(head + content, (address, 0))

    def received(self, most: int) -> Iterator[RawDatagram]:
        """Yield up to `most` datagrams that have arrived."""
        for _ in range(most):
            try:
                # One byte more than a datagram has: a longer one would be cut to the right length.
                packet, source = self._socket.recvfrom(_MAX_IP_HEAD + _HEAD.size + SIZE + 1)
            except OSError:  # nothing more, or the network is down
                return
            start = 0 if self._six else (packet[0] & 0xF) * 4
            if len(packet) >= start + _HEAD.size:
                sender, port, _, _ = _HEAD.unpack_from(packet, start)
                yield RawDatagram(packet[start + _HEAD.size :], source[0], sender, port)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _keep_only_probes(made: socket.socket, *, six: bool) -> None:
    """Attach a filter that keeps datagrams of this protocol to the probed ports."""
    first, second = PROBED_PORTS
    code = [
        # The UDP header begins after that of IPv4, which has no fixed length; IPv6 sockets get no IP header.
        (_LOAD_ZERO, 0, 0, 0) if six else (_LOAD_IP_HEAD, 0, 0, 0),
        (_LOAD_HALF, 0, 0, 2),
        (_EQUALS, 1, 0, first),
        (_EQUALS, 0, 3, second),
        (_LOAD_WORD, 0, 0, _HEAD.size),
        (_EQUALS, 0, 1, int.from_bytes(MAGIC)),
        (_RETURN, 0, 0, 0xFFFF),
        (_RETURN, 0, 0, 0),
    ]
    instructions = b"".join(struct.pack("HBBI", *each) for each in code)
    # Referenced until the call returns: the kernel copies the program from this address.
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)))
