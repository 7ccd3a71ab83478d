"""Datagrams between agents: who said it is certain, and that it was said now.

Two nodes share a key that each works out of its own private key and the other's public one (X25519), so a node that is
compromised speaks for itself only. Every datagram is sealed with it (HMAC-SHA256) over sender, receiver and content.

What was sent once must mean nothing when it comes again. Each life of an agent is a session with a random number, in
which datagrams are counted, and only higher counts are heard. A session that the receiver does not know yet it answers
with a challenge and no words, upon which the other says again what it said, with the challenge. A session of before
cannot do that: its challenge has been answered, and there is another one by now.

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

from tarmac.agent.external.leases.exchange import PrivateKey
from tarmac.agent.external.leases.terms import KEY_BYTES, Identity
from tarmac.decide.egress.lease.messages import Announced, Ask, Follow, Grant, Refuse, Release, Vacant, Word

LARGEST: Final = 1400
_VERSION: Final = b"TMX1"
_HEAD: Final = struct.Struct(">4s32s8sQ8s8s")
_SEAL: Final = 32
_NOTHING: Final = bytes(8)
_WITH_NONCE: Final = (Ask, Grant, Refuse)
_WITHOUT: Final = (Release, Vacant, Follow, Announced)
_KINDS: Final = (*_WITH_NONCE, *_WITHOUT)
_LONGEST_ADDRESS: Final = 39
_MOST_NUMBER: Final = 1 << 62

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, str, int, int]]).decode


class Malformed(ValueError):
    """A datagram that is none of ours."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a datagram says, and what is to be answered at once, if anything."""

    sender: Identity
    words: Sequence[Word]
    answer: Sequence[bytes] = ()


@dataclass(slots=True)
class _Talk:
    """What one node knows about its talk with another."""

    seal: bytes
    challenge: bytes
    session: bytes = b""
    count: int = 0  # the highest heard in the session
    echo: bytes = _NOTHING
    sent: int = 0
    last: Sequence[Word] = ()  # said last, and to be said again if it was not listened to


class Talking:
    """One agent's end. `listens` says whether anybody of that identity may be heard at all; it is asked first."""

    def __init__(self, private: bytes, seed: bytes, listens: Callable[[Identity], bool]) -> None:
        """`seed` are 32 bytes that nobody can guess."""
        self._private = PrivateKey(private)
        self.key = self._private.public
        self._seed, self._drawn = seed, 0
        self._session = self._draw()
        self._listens = listens
        self._talks: dict[Identity, _Talk] = {}
        self.dropped: Counter[str] = Counter()  # by cause

    def keep_only(self, identities: Collection[Identity]) -> None:
        """Forget the others."""
        self._talks = {each: talk for each, talk in self._talks.items() if each in identities}

    def say(self, to: Identity, words: Sequence[Word]) -> list[bytes]:
        """The datagrams that say so; none when the other has said no key that is one."""
        talk = self._talk(to)
        if talk is None:
            return []
        talk.last = words
        return list(self._datagrams(to, talk, words))

    def hear(self, datagram: bytes, address: str) -> Heard | None:
        """What a datagram from an address says; None when it is to be ignored, which is counted by cause."""
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
            # Of an earlier life, or of a new one: it is listened to when what it says next answers the challenge.
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
        return Heard(sender, (), list(self._datagrams(sender, talk, talk.last)))  # it was not listened to before

    def _datagrams(self, to: Identity, talk: _Talk, words: Sequence[Word]) -> Iterator[bytes]:
        """At least one: no words are a word, too."""
        for body in _bodies(words):
            talk.sent += 1
            content = _HEAD.pack(_VERSION, self.key, self._session, talk.sent, talk.challenge, talk.echo) + body
            yield content + _sealed(talk.seal, to.key, content)

    def _talk(self, identity: Identity) -> _Talk | None:
        known = self._talks.get(identity)
        if known is None:
            try:
                shared = self._private.exchange(identity.key)
            except ValueError:  # no key, or one that makes everybody's secret the same
                return None
            known = self._talks[identity] = _Talk(hashlib.sha256(_VERSION + shared).digest(), self._draw())
        return known

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.sha256(self._seed + self._drawn.to_bytes(8)).digest()[:8]

    def _drop(self, cause: str) -> None:
        self.dropped[cause] += 1


def _sealed(key: bytes, receiver: bytes, content: bytes) -> bytes:
    """The sender's key is part of the content."""
    return hmac.digest(key, receiver + content, "sha256")


def _bodies(words: Sequence[Word]) -> Iterator[bytes]:
    """The words, in as many pieces as it takes for none to be cut up on its way."""
    most = max(1, (LARGEST - _HEAD.size - _SEAL) // (_LONGEST_ADDRESS + 24))
    for start in range(0, max(1, len(words)), most):
        yield _encode([_row(word) for word in words[start : start + most]])


def _row(word: Word) -> tuple[int, str, int, int]:
    nonce = word.nonce if isinstance(word, _WITH_NONCE) else 0
    return _KINDS.index(type(word)), word.address, word.epoch, nonce


def _words(body: bytes) -> list[Word]:
    """Raises Malformed."""
    try:
        rows = _decode(body)
    except msgspec.DecodeError as error:
        raise Malformed(str(error)) from error
    return [_word(*row) for row in rows]


def _word(kind: int, address: str, epoch: int, nonce: int) -> Word:
    if not (0 <= kind < len(_KINDS) and len(address) <= _LONGEST_ADDRESS):
        raise Malformed(f"kind {kind}")
    if not (0 <= epoch < _MOST_NUMBER and 0 <= nonce < _MOST_NUMBER):
        raise Malformed("a number that nobody counts to")
    if kind < len(_WITH_NONCE):
        return _WITH_NONCE[kind](address, epoch, nonce)
    return _WITHOUT[kind - len(_WITH_NONCE)](address, epoch)
