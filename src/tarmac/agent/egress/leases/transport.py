"""Authenticated datagrams between agents, protected against forgery and replay.

Two nodes share a key that each derives from its own private key and the peer's public key (X25519), so a compromised
node can only speak for itself. Every datagram carries an HMAC-SHA256 over sender, receiver and content.

A replayed datagram must have no effect. Each agent process is a session with a random number; it counts its datagrams,
and the receiver accepts only higher counts. The receiver answers an unknown session with a challenge and no messages;
the sender then repeats its last messages together with that challenge. A datagram of an earlier session cannot pass:
its challenge has been used, and a new one was drawn since.

A node has several conversations, with the same keys and a purpose each, which is part of the secret: datagrams of one
that an attacker delivers to the other's port are forged there, challenges included.

    version 4 · sender's public key 32 · session 8 · count 8 · challenge for you 8 · echo of yours 8 · words · seal 32
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tarmac.agent.egress.leases.addressconfig import KEY_BYTES, PeerIdentity
from tarmac.agent.egress.leases.exchange import PrivateKey
from tarmac.decide.egress.lease.messages import (
    Announced,
    Ask,
    Follow,
    Grant,
    Refuse,
    Release,
    Renewal,
    Renewed,
    Together,
    Unlisted,
    Vacant,
    Word,
)

MAX_DATAGRAM: Final = 1400
_VERSION: Final = b"TMX1"
_HEAD: Final = struct.Struct(">4s32s8sQ8s8s")
_SEAL: Final = 32
_NO_CHALLENGE: Final = bytes(8)
_WITH_NONCE: Final = (Ask, Grant, Refuse)
_WITHOUT: Final = (Release, Vacant, Follow, Announced)
_TOGETHER: Final = (Renewal, Renewed, Unlisted)
_KINDS: Final = (*_WITH_NONCE, *_WITHOUT, *_TOGETHER)
_NUMBER_OF: Final = {kind: number for number, kind in enumerate(_KINDS)}
_MAX_ADDRESS_LENGTH: Final = 39
_MAX_NUMBER: Final = 1 << 62

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, str, int, int]]).decode


class MalformedDatagram(ValueError):
    """A datagram that does not follow this protocol."""


@dataclass(frozen=True, slots=True)
class ReceivedDatagram:
    """The messages of a datagram, and the datagrams to send back at once, if any."""

    sender: PeerIdentity
    messages: Sequence[Word | Together]
    answer: Sequence[bytes] = ()


@dataclass(slots=True)
class _PeerSession:
    """The state of the conversation with one peer."""

    seal: bytes
    challenge: bytes
    session: bytes = b""
    count: int = 0  # the highest received in the session
    echo: bytes = _NO_CHALLENGE
    sent: int = 0
    last: Sequence[Word | Together] = ()  # sent last, and sent again if the peer ignored it


class PeerTransport:
    """Transport of one agent. `accepts` tells if datagrams of an identity are accepted at all; it is called first."""

    def __init__(
        self, private: bytes, seed: bytes, accepts: Callable[[PeerIdentity], bool], purpose: bytes = b""
    ) -> None:
        """`seed` are 32 unpredictable bytes."""
        self._purpose = purpose
        self._private = PrivateKey(private)
        self.key = self._private.public
        self._seed, self._drawn = seed, 0
        self._session = self._draw()
        self._accepts = accepts
        self._sessions: dict[PeerIdentity, _PeerSession] = {}
        self.dropped: Counter[str] = Counter()  # by cause

    def keep_only(self, identities: Collection[PeerIdentity]) -> None:
        """Drop the state of all peers that are not in `identities`."""
        self._sessions = {each: peer for each, peer in self._sessions.items() if each in identities}

    def datagrams_for(self, to: PeerIdentity, messages: Sequence[Word | Together]) -> list[bytes]:
        """Return the datagrams that carry `messages`; none if the peer has no valid key."""
        peer = self._session_with(to)
        if peer is None:
            return []
        # Before the datagrams are made: the peer may answer the first with a challenge and needs all of them again.
        peer.last = messages
        return list(self._datagrams(to, peer, messages))

    def receive(self, datagram: bytes, address: str) -> ReceivedDatagram | None:
        """Authenticate a datagram received from an address. Return None if it is dropped, which is counted by cause."""
        if len(datagram) < _HEAD.size + _SEAL or not datagram.startswith(_VERSION):
            return self._drop("malformed")
        sender = PeerIdentity(address, datagram[4 : 4 + KEY_BYTES])
        peer = self._session_with(sender) if self._accepts(sender) else None
        if peer is None:
            return self._drop("unknown")
        content, seal = datagram[:-_SEAL], datagram[-_SEAL:]
        # Before any state changes: a forged datagram must not raise the count or replace the session.
        if not hmac.compare_digest(seal, _sealed(peer.seal, self.key, content)):
            return self._drop("forged")
        _, _, session, count, challenge, echo = _HEAD.unpack_from(content)
        if session != peer.session and echo != peer.challenge:
            # A replay of an earlier session, or a new one: accepted once its next datagram answers the challenge.
            peer.echo = challenge
            return ReceivedDatagram(sender, (), list(self._datagrams(sender, peer, ())))
        # Reordered datagrams are dropped with replayed ones; requests are repeated anyway.
        if session == peer.session and count <= peer.count:
            return self._drop("replayed")
        if session != peer.session:
            # A new challenge for each session: an echo recorded from an earlier one must not open another.
            peer.session, peer.challenge = session, self._draw()
        peer.count, peer.echo = count, challenge
        try:
            messages = _messages(content[_HEAD.size :])
        except MalformedDatagram:
            return self._drop("malformed")
        if messages or not peer.last:
            return ReceivedDatagram(sender, messages)
        return ReceivedDatagram(
            sender, (), list(self._datagrams(sender, peer, peer.last))
        )  # the peer dropped it before

    def _datagrams(self, to: PeerIdentity, peer: _PeerSession, messages: Sequence[Word | Together]) -> Iterator[bytes]:
        """Yield at least one datagram: without words it still carries challenge and echo."""
        for body in _bodies(messages):
            # Never reused, even if sending fails: a second datagram with this number would count as a replay.
            peer.sent += 1
            content = _HEAD.pack(_VERSION, self.key, self._session, peer.sent, peer.challenge, peer.echo) + body
            yield content + _sealed(peer.seal, to.key, content)

    def _session_with(self, identity: PeerIdentity) -> _PeerSession | None:
        known = self._sessions.get(identity)
        if known is None:
            try:
                shared = self._private.exchange(identity.key)
            except ValueError:  # not a key, or a weak one that gives every peer the same secret
                return None
            secret = hashlib.sha256(_VERSION + self._purpose + shared).digest()
            known = self._sessions[identity] = _PeerSession(secret, self._draw())
        return known

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(self._seed + self._drawn.to_bytes(8)).digest()[:8]

    def _drop(self, cause: str) -> None:
        self.dropped[cause] += 1


def _sealed(key: bytes, receiver: bytes, content: bytes) -> bytes:
    """Return the HMAC of a datagram. The sender's key is part of the content."""
    return hmac.digest(key, receiver + content, "sha256")


def _bodies(messages: Sequence[Word | Together]) -> Iterator[bytes]:
    """Yield the encoded words in chunks that fit into one unfragmented datagram."""
    # The longest row: an address, two numbers of nine bytes, and the prefixes of msgpack.
    most = max(1, (MAX_DATAGRAM - _HEAD.size - _SEAL) // (_MAX_ADDRESS_LENGTH + 24))
    for start in range(0, max(1, len(messages)), most):
        yield _encode([_row(message) for message in messages[start : start + most]])


def _row(message: Word | Together) -> tuple[int, str, int, int]:
    if isinstance(message, _TOGETHER):
        return _NUMBER_OF[type(message)], "", message.digest, message.nonce
    nonce = message.nonce if isinstance(message, _WITH_NONCE) else 0
    return _NUMBER_OF[type(message)], message.address, message.epoch, nonce


def _messages(body: bytes) -> list[Word | Together]:
    """Decode a body. Raises MalformedDatagram."""
    try:
        rows = _decode(body)
    except ValueError as error:  # also UnicodeDecodeError, which is no error of msgspec's own
        raise MalformedDatagram(str(error)) from error
    return [_message(*row) for row in rows]


def _message(kind: int, address: str, epoch: int, nonce: int) -> Word | Together:
    if not (0 <= kind < len(_KINDS) and len(address) <= _MAX_ADDRESS_LENGTH):
        raise MalformedDatagram(f"kind {kind}")
    if not (0 <= epoch < _MAX_NUMBER and 0 <= nonce < _MAX_NUMBER):
        raise MalformedDatagram("a number that nobody counts to")
    if kind < len(_WITH_NONCE):
        return _WITH_NONCE[kind](address, epoch, nonce)
    if kind < len(_WITH_NONCE) + len(_WITHOUT):
        return _WITHOUT[kind - len(_WITH_NONCE)](address, epoch)
    return _TOGETHER[kind - len(_WITH_NONCE) - len(_WITHOUT)](epoch, nonce)
