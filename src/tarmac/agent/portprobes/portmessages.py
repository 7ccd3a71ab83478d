"""Datagrams that show which UDP ports between two nodes are open, and in which direction. Pure.

A request says at which port of the peer it arrives, and to which port of the sender the answer goes, so that four
requests cover both ports in both directions. An answer is as long as its request, and a request has one answer.

Each datagram has an HMAC-SHA256 by a key that only the two nodes can derive (X25519), over receiver and content: a
third host gets no answer, and cannot invent one. Kernels ignore these datagrams at both ports: to VXLAN they are
packets without a VNI, to WireGuard a message of unknown type.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tarmac.agent.egress.leases.exchange import PrivateKey
from tarmac.api.networking.ports import ENCRYPTED_PORT, TUNNEL_PORT
from tarmac.api.networking.tunnels import Direction
from tarmac.base.boundedcache import bounded_cache

PROBED_PORTS: Final = (TUNNEL_PORT, ENCRYPTED_PORT)
MAX_AGE: Final = 60.0
"""Seconds after which a request is ignored, so that a recorded one is of no use. Clocks differ by up to 30 s."""

MAGIC: Final = b"TmPp"
REQUEST, ANSWER = 1, 2
_LAYOUT: Final = struct.Struct(">4sB3xHHQ8s32s")
_SEAL_BYTES: Final = 32
_MAX_SECRETS: Final = 1024
SIZE: Final = _LAYOUT.size + _SEAL_BYTES
_PURPOSE: Final = b"tarmac ports between nodes 1"


class PortMessage(NamedTuple):
    """A request or an answer. `arrival` is the receiver's port of the request, `back` the sender's of the answer."""

    kind: int
    arrival: int
    back: int
    time: int
    nonce: bytes
    sender: bytes


class PortSeals:
    """Seals and opens the datagrams of one node."""

    def __init__(self, private: bytes) -> None:
        self._private = PrivateKey(private)
        self.public = self._private.public
        # Bounded: a stolen node may publish another key each second.
        self._secret = bounded_cache(_MAX_SECRETS)(self._derived)

    def sealed(self, message: PortMessage, receiver: bytes) -> bytes:
        """Return the datagram for the node with this public key. Raises ValueError if it is no key."""
        content = _LAYOUT.pack(MAGIC, *message)
        return content + self._seal(receiver, receiver, content)

    def opened(self, datagram: bytes, known: Collection[bytes]) -> PortMessage | None:
        """Return the message of a node whose public key is in `known`; None for an unknown sender or a forged seal."""
        if len(datagram) != SIZE:
            return None
        content, seal = datagram[:-_SEAL_BYTES], datagram[-_SEAL_BYTES:]
        magic, *fields = _LAYOUT.unpack(content)
        message = PortMessage(*fields)
        # Before the key exchange: an unknown key must not cost one.
        if magic != MAGIC or message.sender not in known or message.sender == self.public:
            return None
        try:
            valid = hmac.compare_digest(seal, self._seal(message.sender, self.public, content))
        except ValueError:  # a peer published something that is no key
            return None
        return message if valid else None

    def _seal(self, peer: bytes, receiver: bytes, content: bytes) -> bytes:
        return hmac.digest(self._secret(peer), receiver + content, "sha256")

    def _derived(self, peer: bytes) -> bytes:
        return hashlib.sha256(_PURPOSE + self._private.exchange(peer)).digest()


def answer_to(request: PortMessage, own: bytes) -> PortMessage:
    """Return the answer of the node with the public key `own`."""
    return request._replace(kind=ANSWER, sender=own)


@dataclass(slots=True)
class PortFindings:
    """The ports of one peer at which requests arrived, and the own ports at which its answers arrived."""

    received: set[int] = field(default_factory=set[int])
    heard: set[int] = field(default_factory=set[int])

    def record(self, answer: PortMessage) -> None:
        """Record an answer that arrived at `answer.back`."""
        self.received.add(answer.arrival)
        self.heard.add(answer.back)

    def closed(self, port: int) -> Direction | None:
        """Return the direction, seen from here, in which packets to a port are lost; None if it is open."""
        if port in self.received:
            return None if port in self.heard else "from"
        return "to" if port in self.heard else "to or from"


def key_of(text: str) -> bytes:
    """Return the bytes of a published key; empty if it is malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
