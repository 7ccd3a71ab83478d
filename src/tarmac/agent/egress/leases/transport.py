"""Authenticated datagrams between agents, protected against forgery and replay.

Two nodes share a key that each derives from its own private key and the peer's public key (X25519), so a compromised
node can only speak for itself. Every datagram carries an HMAC-SHA256 over sender, receiver and content.

A replayed datagram must have no effect. Each agent process is a session with a random number; it counts its datagrams,
and the receiver accepts only higher counts. The receiver answers an unknown session with a challenge and no messages;
the sender then repeats its last messages together with that challenge. A datagram of an earlier session cannot pass:
its challenge has been used, and a new one was drawn since.

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

from tarmac.agent.egress.leases.addressconfig import KEY_BYTES, Identity
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

LARGEST: Final = 1400
_VERSION: Final = b"TMX1"
_HEAD: Final = struct.Struct(">4s32s8sQ8s8s")
_SEAL: Final = 32
_NOTHING: Final = bytes(8)
_WITH_NONCE: Final = (Ask, Grant, Refuse)
_WITHOUT: Final = (Release, Vacant, Follow, Announced)
_TOGETHER: Final = (Renewal, Renewed, Unlisted)
_KINDS: Final = (*_WITH_NONCE, *_WITHOUT, *_TOGETHER)
_NUMBER_OF: Final = {kind: number for number, kind in enumerate(_KINDS)}
_LONGEST_ADDRESS: Final = 39
_MOST_NUMBER: Final = 1 << 62

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, str, int, int]]).decode


class Malformed(ValueError):
    """A datagram that does not follow this protocol."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The messages of a datagram, and the datagrams to send back at once, if any."""

    sender: Identity
    words: Sequence[Word | Together]
    answer: Sequence[bytes] = ()


@dataclass(slots=True)
class _Talk:
    """The state of the conversation with one peer."""

    seal: bytes
    challenge: bytes
    session: bytes = b""
    count: int = 0  # the highest received in the session
    echo: bytes = _NOTHING
    sent: int = 0
    last: Sequence[Word | Together] = ()  # sent last, and sent again if the peer ignored it


class Talking:
    """Transport of one agent. `listens` tells if datagrams of an identity are accepted at all; it is called first."""

    def __init__(self, private: bytes, seed: bytes, listens: Callable[[Identity], bool]) -> None:
        """`seed` are 32 unpredictable bytes."""
        self._private = PrivateKey(private)
        self.key = self._private.public
        self._seed, self._drawn = seed, 0
        self._session = self._draw()
        self._listens = listens
        self._talks: dict[Identity, _Talk] = {}
        self.dropped: Counter[str] = Counter()  # by cause

    def keep_only(self, identities: Collection[Identity]) -> None:
        """Drop the state of all peers that are not in `identities`."""
        self._talks = {each: talk for each, talk in self._talks.items() if each in identities}

    def say(self, to: Identity, words: Sequence[Word | Together]) -> list[bytes]:
        """Return the datagrams that carry `words`; none if the peer has no valid key."""
        talk = self._talk(to)
        if talk is None:
            return []
        talk.last = words
        return list(self._datagrams(to, talk, words))

    def hear(self, datagram: bytes, address: str) -> Heard | None:
        """Authenticate a datagram received from an address. Return None if it is dropped, which is counted by cause."""
        if len(datagram) < _HEAD.size + _SEAL or not datagram.startswith(_VERSION):
            return self._drop("malformed")
        sender = Identity(address, datagram[4 : 4 + KEY_BYTES])
        talk = self._talk(sender) if self._listens(sender) else None
        if talk is None:
            return self._drop("unknown")
        content, seal = datagram[:-_SEAL], datagram[-_SEAL:]
        if not hmac.compare_digest(seal, _sealed(talk.seal, self.key, content)):
            return self._drop("forged")
        _, _, session, count, challenge, echo = _HEAD.unpack_from(content)
        if session != talk.session and echo != talk.challenge:
            # A replay of an earlier session, or a new one: accepted once its next datagram answers the challenge.
            talk.echo = challenge
            return Heard(sender, (), list(self._datagrams(sender, talk, ())))
        if session == talk.session and count <= talk.count:
            return self._drop("replayed")
        if session != talk.session:
            talk.session, talk.challenge = session, self._draw()
        talk.count, talk.echo = count, challenge
        try:
            words = _words(content[_HEAD.size :])
        except Malformed:
            return self._drop("malformed")
        if words or not talk.last:
            return Heard(sender, words)
        return Heard(sender, (), list(self._datagrams(sender, talk, talk.last)))  # the peer dropped it before

    def _datagrams(self, to: Identity, talk: _Talk, words: Sequence[Word | Together]) -> Iterator[bytes]:
        """Yield at least one datagram: without words it still carries challenge and echo."""
        for body in _bodies(words):
            talk.sent += 1
            content = _HEAD.pack(_VERSION, self.key, self._session, talk.sent, talk.challenge, talk.echo) + body
            yield content + _sealed(talk.seal, to.key, content)

    def _talk(self, identity: Identity) -> _Talk | None:
        known = self._talks.get(identity)
        if known is None:
            try:
                shared = self._private.exchange(identity.key)
            except ValueError:  # not a key, or a weak one that gives every peer the same secret
                return None
            known = self._talks[identity] = _Talk(hashlib.sha256(_VERSION + shared).digest(), self._draw())
        return known

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(self._seed + self._drawn.to_bytes(8)).digest()[:8]

    def _drop(self, cause: str) -> None:
        self.dropped[cause] += 1


def _sealed(key: bytes, receiver: bytes, content: bytes) -> bytes:
    """Return the HMAC of a datagram. The sender's key is part of the content."""
    return hmac.digest(key, receiver + content, "sha256")


def _bodies(words: Sequence[Word | Together]) -> Iterator[bytes]:
    """Yield the encoded words in chunks that fit into one unfragmented datagram."""
    most = max(1, (LARGEST - _HEAD.size - _SEAL) // (_LONGEST_ADDRESS + 24))
    for start in range(0, max(1, len(words)), most):
        yield _encode([_row(word) for word in words[start : start + most]])


def _row(word: Word | Together) -> tuple[int, str, int, int]:
    if isinstance(word, _TOGETHER):
        return _NUMBER_OF[type(word)], "", word.digest, word.nonce
    nonce = word.nonce if isinstance(word, _WITH_NONCE) else 0
    return _NUMBER_OF[type(word)], word.address, word.epoch, nonce


def _words(body: bytes) -> list[Word | Together]:
    """Decode a body. Raises Malformed."""
    try:
        rows = _decode(body)
    except ValueError as error:  # also UnicodeDecodeError, which is no error of msgspec's own
        raise Malformed(str(error)) from error
    return [_word(*row) for row in rows]


def _word(kind: int, address: str, epoch: int, nonce: int) -> Word | Together:
    if not (0 <= kind < len(_KINDS) and len(address) <= _LONGEST_ADDRESS):
        raise Malformed(f"kind {kind}")
    if not (0 <= epoch < _MOST_NUMBER and 0 <= nonce < _MOST_NUMBER):
        raise Malformed("a number that nobody counts to")
    if kind < len(_WITH_NONCE):
        return _WITH_NONCE[kind](address, epoch, nonce)
    if kind < len(_WITH_NONCE) + len(_WITHOUT):
        return _WITHOUT[kind - len(_WITH_NONCE)](address, epoch)
    return _TOGETHER[kind - len(_WITH_NONCE) - len(_WITHOUT)](epoch, nonce)
