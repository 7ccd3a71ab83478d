"""The name server: UDP and TCP in every network's router namespace.

Questions that the view can answer are answered synchronously, without a task; only forwarded ones take time, and their
number is limited. The worst result of any packet is an error response. Datagrams that cannot be sent are dropped: the
client retries.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from tarmac.agent.dns.dnsmessages import (
    MAX_TCP,
    NO_ERROR,
    SERVER_FAILURE,
    DnsAnswer,
    Query,
    Question,
    Record,
    read_query,
    relay,
    write_answer,
)
from tarmac.agent.dns.domainnames import Name
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.upstream import Upstream
from tarmac.agent.ingresslink import enable_packet_info, link_of_connection, link_of_message
from tarmac.agent.routerservices import RouterService
from tarmac.api.networking.names import RESOLVERS
from tarmac.base.log import log

PORT: Final = 53
MAX_FORWARDED: Final = 256  # forwarded questions in progress, per network
MAX_CONNECTIONS: Final = 64  # per network
BATCH_SIZE: Final = 64  # datagrams handled before the event loop runs other work
BATCH_SECONDS: Final = 0.005  # and the time limit for these, in case they are expensive
IDLE_TIMEOUT: Final = 10.0
_MAX_QUERY: Final = 4096
_log = log("names")
_MAX_ALIASES: Final = 8  # followed before they count as a loop

NetworksOf = Callable[[str, int], Collection[str]]
"""Returns the networks of the client behind a link of a network; at least that network."""


class NameServer:
    """Responds to DNS packets."""

    def __init__(self, resolver: Resolver, upstream: Upstream, networks_of: NetworksOf) -> None:
        self._resolver = resolver
        self._upstream = upstream
        self._networks_of = networks_of

    def services(self) -> list[RouterService]:
        """Return the sockets to serve in each network."""
        return [
            door
            for address in RESOLVERS
            for door in (
                RouterService("names", address, PORT, "udp", self.serve_datagrams),
                RouterService("names", address, PORT, "tcp", self.serve_connections),
            )
        ]

    def at_once(self, query: Query, networks: Collection[str], limit: int) -> bytes | None:
        """Return the response, if no upstream resolver is needed."""
        if query.trouble != NO_ERROR or query.question is None:
            return write_answer(query, DnsAnswer(query.trouble, authoritative=False), limit)
        answer = self._resolver.answer(query.question, networks)
        if answer is None or answer.follow is not None:
            return None
        return write_answer(query, answer, limit)

    async def in_time(self, query: Query, networks: Collection[str], limit: int) -> bytes:
        """Return the response, asking upstream resolvers."""
        assert query.question is not None, "what is no question was answered at once"
        answer = self._resolver.answer(query.question, networks)
        if answer is not None:
            return write_answer(query, await self._followed(query.question, answer, networks), limit)
        known = await self._upstream.ask(query.question, query.edns)
        if known is None:
            return write_answer(query, DnsAnswer(SERVER_FAILURE, authoritative=False), limit)
        return relay(query, known.reply, known.age, limit)

    async def _followed(self, question: Question, answer: DnsAnswer, networks: Collection[str]) -> DnsAnswer:
        """Return the response with the records of its alias target."""
        records, target = answer.answers, answer.follow
        for _ in range(_MAX_ALIASES):
            if target is None:
                return DnsAnswer(answers=records)
            found = self._resolver.answer(Question(target, question.type), networks)
            if found is None:
                return DnsAnswer(answers=(*records, *await self._addresses(target, question.type)))
            records, target = (*records, *found.answers), found.follow
        return DnsAnswer(SERVER_FAILURE, authoritative=False)

    async def _addresses(self, name: Name, type: int) -> tuple[Record, ...]:
        known = await self._upstream.ask(Question(name, type), False)
        return known.reply.addresses if known is not None else ()

    # Datagrams

    async def serve_datagrams(self, network: str, listening: socket.socket) -> None:
        """Serve until cancelled."""
        enable_packet_info(listening)
        loop = asyncio.get_running_loop()
        waiting: set[asyncio.Task[None]] = set()
        broken: asyncio.Future[OSError] = loop.create_future()
        async with asyncio.TaskGroup() as group:

            def readable() -> None:
                # Runs in the loop, not in a task: a flood of datagrams would hold it without the limits below.
                begun = loop.time()
                try:
                    for _ in range(BATCH_SIZE):
                        self._datagram(network, listening, group, waiting)
                        if loop.time() - begun > BATCH_SECONDS:
                            return  # the loop calls again: there is more to read
                except BlockingIOError:
                    return
                except OSError as error:
                    loop.remove_reader(listening)
                    # Set once: the reader is removed before, or the next call would set the result of a finished
                    # future.
                    broken.set_result(error)

            loop.add_reader(listening, readable)
            try:
                error = await broken
            finally:
                loop.remove_reader(listening)
                # The group waits for its tasks: a forwarded question would delay the end by its timeouts.
                # The callbacks that shrink this set run later, so it stays the same during the loop.
                for task in waiting:
                    task.cancel()
        raise error

    def _datagram(
        self, network: str, listening: socket.socket, group: asyncio.TaskGroup, waiting: set[asyncio.Task[None]]
    ) -> None:
        # The kernel cuts a longer datagram, and the question does not parse then.
        packet, messages, _, sender = listening.recvmsg(_MAX_QUERY, 256)
        query = read_query(packet)
        if query is None:
            return
        networks = self._networks_of(network, link_of_message(messages))
        answer = self.at_once(query, networks, query.size)
        if answer is not None:
            _send(listening, answer, sender)
        # Above it the question is dropped, as UDP may: a pod that floods must not begin a task for each.
        elif len(waiting) < MAX_FORWARDED:
            task = group.create_task(self._later(listening, query, networks, sender))
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    async def _later(
        self, listening: socket.socket, query: Query, networks: Collection[str], sender: tuple[str, int]
    ) -> None:
        try:
            _send(listening, await self.in_time(query, networks, query.size), sender)
        except Exception as error:  # a bug triggered by one question must not stop the server
            _log.error("DNS question failed", error=repr(error))

    # Connections

    async def serve_connections(self, network: str, listening: socket.socket) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MAX_CONNECTIONS)
        async with asyncio.TaskGroup() as group:
            while True:
                # Before the accept: connections beyond the limit wait in the kernel, without a descriptor of ours.
                await room.acquire()
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except OSError as error:
                    broken = error
                    break
                task = group.create_task(self._connection(network, accepted))
                # In a callback, not at the end of the task: a task that is cancelled before its first step would keep
                # the slot.
                task.add_done_callback(lambda _: room.release())
        raise broken

    async def _connection(self, network: str, accepted: socket.socket) -> None:
        try:
            with accepted:
                await self._converse(self._networks_of(network, link_of_connection(accepted)), accepted)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        except Exception as error:
            _log.error("DNS connection failed", error=repr(error))

    async def _converse(self, networks: Collection[str], accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            while await self._exchange(networks, reader, writer):
                pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _exchange(
        self, networks: Collection[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Handle one question; return True if more may follow."""
        async with asyncio.timeout(IDLE_TIMEOUT):
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            query = read_query(await reader.readexactly(size))
        if query is None:
            return False
        answer = self.at_once(query, networks, MAX_TCP)
        if answer is None:
            answer = await self.in_time(query, networks, MAX_TCP)
        writer.write(struct.pack("!H", len(answer)) + answer)
        async with asyncio.timeout(IDLE_TIMEOUT):
            await writer.drain()
        return True


def _send(listening: socket.socket, answer: bytes, to: tuple[str, int]) -> None:
    with suppress(OSError):
        listening.sendto(answer, to)
