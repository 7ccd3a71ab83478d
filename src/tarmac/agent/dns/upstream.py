"""Queries the node's resolvers in order, and accepts only replies that match the question.

Every question has a random id and its own socket, so that an off-path attacker cannot forge a reply; mismatching
replies are dropped while waiting continues. A truncated reply is requested again over TCP.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tarmac.agent.dns.dnsmessages import (
    MAX_TCP,
    NO_ERROR,
    NO_SUCH_NAME,
    SERVER_FAILURE,
    Question,
    UpstreamReply,
    read_reply,
    write_query,
)
from tarmac.agent.dns.domainnames import MalformedPacket
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness

TIMEOUT: Final = 2.0
MAX_ROUNDS: Final = 2
PORT: Final = 53

MAX_ENTRIES: Final = 1000
MAX_TTL: Final = 300
MAX_NEGATIVE_TTL: Final = 30  # for names that do not exist: clients may be waiting for them to appear

Key = tuple[Question, bool]
"""The question, and True with EDNS."""


class CachedReply(NamedTuple):
    """A cached reply, and its age in seconds."""

    reply: UpstreamReply
    age: int


class DnsCache:
    """Bounded by count; the size of a reply is bounded by UDP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[float, UpstreamReply]] = OrderedDict()

    def get(self, key: Key) -> CachedReply | None:
        """Return an unexpired reply."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = int(self._clock.monotonic() - entry[0])
        if age >= _ttl(entry[1]):
            del self._entries[key]
            return None
        return CachedReply(entry[1], age)

    def put(self, key: Key, reply: UpstreamReply) -> None:
        """Cache a reply, if it is cacheable."""
        if not _ttl(reply) or reply.truncated:
            return
        self._entries[key] = (self._clock.monotonic(), reply)
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)


def _ttl(reply: UpstreamReply) -> int:
    if reply.code not in (NO_ERROR, NO_SUCH_NAME):
        return 0
    return min(reply.ttl, MAX_TTL if reply.code == NO_ERROR and reply.addresses else MAX_NEGATIVE_TTL)


class Upstream:
    """The resolvers, by address and port."""

    def __init__(
        self, servers: Sequence[tuple[str, int]], clock: Clock, randomness: Randomness, timeout: float = TIMEOUT
    ) -> None:
        self._servers = tuple(servers)
        self._randomness = randomness
        self._timeout = timeout
        self._cache = DnsCache(clock)

    async def ask(self, question: Question, edns: bool) -> CachedReply | None:
        """Return the reply; None if no resolver replied."""
        known = self._cache.get((question, edns))
        if known is not None:
            return known
        failed: UpstreamReply | None = None
        for _ in range(MAX_ROUNDS):
            for server in self._servers:
                reply = await self._ask(server, question, edns)
                # A failure is not cached: the resolver may recover before the next question.
                if reply is not None and reply.code != SERVER_FAILURE:
                    self._cache.put((question, edns), reply)
                    return CachedReply(reply, 0)
                failed = reply or failed
        return CachedReply(failed, 0) if failed is not None else None

    async def _ask(self, server: tuple[str, int], question: Question, edns: bool) -> UpstreamReply | None:
        # Random, so that a forged reply must guess it; with the port of a socket per question that takes 32 bits.
        number = int(self._randomness.uuid()[:4], 16)
        packet = write_query(number, question, edns)
        try:
            async with asyncio.timeout(self._timeout):
                # One timeout covers both transports: a resolver that is slow over TCP would otherwise double the wait.
                reply = await _over_udp(server, packet, number, question)
                return await _over_tcp(server, packet, number, question) if reply.truncated else reply
        except (OSError, TimeoutError, MalformedPacket, asyncio.IncompleteReadError):
            return None


async def _over_udp(server: tuple[str, int], packet: bytes, number: int, question: Question) -> UpstreamReply:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        asking.connect(server)  # the kernel drops replies from other addresses
        await loop.sock_sendall(asking, packet)
        # Ended by the caller's timeout only: an attacker may send wrong replies without end.
        while True:
            try:
                return read_reply(await loop.sock_recv(asking, MAX_TCP), number, question)
            except MalformedPacket:
                continue  # not to our question; the right reply may still come


async def _over_tcp(server: tuple[str, int], packet: bytes, number: int, question: Question) -> UpstreamReply:
    reader, writer = await asyncio.open_connection(*server)
    try:
        writer.write(struct.pack("!H", len(packet)) + packet)
        (size,) = struct.unpack("!H", await reader.readexactly(2))
        return read_reply(await reader.readexactly(size), number, question)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
