"""The thread of leases: it waits for datagrams and for time, and for nothing else.

Whatever the agent's loop is busy with, leases are renewed and votes are given here. It lives while there are addresses
that concern this node, and with it its socket. What it is told comes by a queue and is done between two datagrams;
what it has to tell, it tells by a callback that does not wait.

Nothing is said before what must outlive the agent is on the disk. Where the disk refuses, only what is new is not said:
promises and requests of epochs that are written down go on.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from tarmac.agent.external.leases.machines import TICK, Carrying, Kernel, LeaseNode
from tarmac.agent.external.leases.remembering import Known, LeaseFile
from tarmac.agent.external.leases.talking import Talking
from tarmac.agent.external.leases.terms import Identity, Terms
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.messages import Ask, Grant, Word

PORT: Final = 4801
_LARGEST: Final = 4096
_BURST: Final = 64  # datagrams read before time is looked at again
_PROBES: Final = 8  # addresses that are looked for on their segments at once
_AGAIN: Final = 1.0

_log = log("external")


class LeaseKernel(Kernel, Protocol):
    """What the thread uses of the datapath."""

    def probe(self, address: str) -> str:
        """The hardware address of a stranger who has an address; empty when nobody answers."""
        ...


class LeaseThread:
    """All leases of one node. Used from the agent's loop, where `moved` is called with each address that has moved."""

    def __init__(
        self,
        node: str,
        kernel: LeaseKernel,
        private: bytes,
        file: LeaseFile,
        clock: Clock,
        draw: Callable[[int], bytes],
        moved: Callable[[str], None],
        port: int = PORT,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """`begin` is called in the thread before anything else, to enter the node's network namespace, say."""
        self._node, self._kernel, self._private, self._file = node, kernel, private, file
        self._clock, self._draw, self._moved, self._port, self._begin = clock, draw, moved, port, begin
        self._life: _Life | None = None
        self._ended: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._gaps: tuple[float, int] = (0.0, 0)

    @property
    def carrying(self) -> Mapping[str, Carrying]:
        """The addresses that this node carries."""
        return dict(self._life.machines.carrying) if self._life else {}

    @property
    def strangers(self) -> Mapping[str, str]:
        """Hardware addresses of strangers that have addresses which this node was to carry."""
        return dict(self._life.machines.strangers) if self._life else {}

    @property
    def taken(self) -> Mapping[str, int]:
        """How often addresses have come here, by cause."""
        return self._taken + (self._life.machines.taken if self._life else Counter())

    @property
    def gaps(self) -> tuple[float, int]:
        """For how long nobody carried them, in seconds in all; and how many of them were measured."""
        seconds, number = self._life.machines.gaps if self._life else (0.0, 0)
        return self._gaps[0] + seconds, self._gaps[1] + int(number)

    @property
    def vote_seconds(self) -> Mapping[str, float]:
        """How long the last answer of each voter took."""
        return dict(self._life.machines.votes.seconds) if self._life else {}

    @property
    def votes_lost(self) -> Mapping[str, int]:
        """How many answers of each voter never came."""
        return self._lost + (self._life.machines.votes.lost if self._life else Counter())

    @property
    def left(self) -> Mapping[str, float]:
        """The addresses that this node carries, and the seconds for which the kernel was told to."""
        now = self._clock.monotonic()
        told = dict(self._life.machines.told_kernel) if self._life else {}
        return {address: until - now for address, until in told.items()}

    @property
    def dropped(self) -> Mapping[str, int]:
        """Datagrams that were not listened to, by cause."""
        return self._ended + (self._life.talking.dropped if self._life else Counter())

    async def serve(self, node_address: str, terms: Mapping[str, Terms]) -> None:
        """Follow the Gateways from now on; done when this returns."""
        if self._life is not None and self._life.address != node_address:
            await self.close()
        if terms and self._life is None:
            loop = asyncio.get_running_loop()
            tell = partial(loop.call_soon_threadsafe, self._moved)
            talking = (self._private, self._draw(32))
            self._life = _Life(
                self._node, node_address, self._port, self._kernel, talking, self._file, self._clock, tell, self._begin
            )
        if self._life is not None:
            await self._life.do(lambda machines: machines.serve(terms))
        if not terms:
            await self.close()

    async def hand_over(self, *, whatever: bool = False) -> None:
        """Give addresses to others, before the agent ends."""
        if self._life is not None:
            await self._life.do(lambda machines: machines.hand_over(whatever=whatever))

    async def close(self) -> None:
        """End the thread. What the kernel carries goes silent by itself."""
        life, self._life = self._life, None
        if life is not None:
            self._ended.update(life.talking.dropped)
            self._taken.update(life.machines.taken)
            self._lost.update(life.machines.votes.lost)
            self._gaps = self._gaps[0] + life.machines.gaps[0], self._gaps[1] + int(life.machines.gaps[1])
            await asyncio.to_thread(life.end)


class _Life:
    """From when there are addresses until there are none."""

    def __init__(
        self,
        node: str,
        address: str,
        port: int,
        kernel: LeaseKernel,
        talking: tuple[bytes, bytes],
        file: LeaseFile,
        clock: Clock,
        tell: Callable[[str], object],
        begin: Callable[[], None],
    ) -> None:
        self.address = address
        self._port, self._kernel, self._file, self._clock, self._tell = port, kernel, file, clock, tell
        self.machines = LeaseNode(node, kernel, clock, file.kept, self._probe, self._moved)
        self.talking = Talking(*talking, self._listens)
        self._identities: dict[Identity, None] = {}
        self._senders: set[str] = set()
        self._strangers: dict[str, tuple[bytes, float]] = {}  # address -> key of a node that is no voter, last heard
        self._commands: deque[tuple[Callable[[LeaseNode], None], Future[None]]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._socket: socket.socket | None = None
        self._opens_at = float("-inf")
        self._ending = False
        self._begin = begin
        self._probes = ThreadPoolExecutor(_PROBES, "probes")
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._thread.start()

    async def do(self, command: Callable[[LeaseNode], None]) -> None:
        """Have something done in the thread, and wait for it."""
        done: Future[None] = Future()
        self._commands.append((command, done))
        os.eventfd_write(self._wake, 1)
        await asyncio.wrap_future(done)

    def end(self) -> None:
        """End the thread, and wait for it."""
        self._ending = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._probes.shutdown(cancel_futures=True)
        os.close(self._wake)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        self._begin()
        due = self._clock.monotonic()
        while not self._ending:
            try:
                self._open()
                self._wait(max(0.0, due - self._clock.monotonic()))
                self._obey()
                self._read()
                if self._clock.monotonic() >= due:
                    due = (
                        self._clock.monotonic() + TICK
                    )  # first: a tick that fails is tried again a tick later, not at once
                    self.machines.tick()
                self._say()
            except Exception as error:  # whatever it is, the other leases go on
                _log.error("a step of leases failed", error=repr(error))

    def _open(self) -> None:
        """Have a socket at the node's address, which may not be there yet."""
        now = self._clock.monotonic()
        if self._socket is not None or now < self._opens_at:
            return
        self._opens_at = now + _AGAIN
        made = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            made.bind((self.address, self._port))
        except OSError as error:
            made.close()
            _log.warning("leases have no socket yet", address=self.address, port=self._port, why=str(error))
            return
        self._socket = made

    def _wait(self, seconds: float) -> None:
        waiting = select.poll()  # not select(), which refuses descriptors from 1024 on: an agent of many pods has them
        waiting.register(self._wake, select.POLLIN)
        if self._socket is not None:
            waiting.register(self._socket, select.POLLIN)
        waiting.poll(seconds * 1000)

    def _obey(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
        while self._commands:
            command, done = self._commands.popleft()
            if not done.set_running_or_notify_cancel():
                continue  # whoever wanted it was cancelled before it began, and from here on cannot be
            try:
                command(self.machines)
                self._meet()
                self._say()  # before whoever waits goes on: an agent that ends has then given back what it had
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _meet(self) -> None:
        """Know whom to listen to."""
        terms = self.machines.terms.values()
        self._identities = {own: None for each in terms for own in (*each.candidates.values(), *each.voters.values())}
        senders = {address for each in terms for address in each.senders}
        self._strangers = {each: known for each, known in self._strangers.items() if each in senders}
        strangers = [Identity(address, key) for address, (key, _) in self._strangers.items()]
        self.talking.keep_only({*self._identities, *strangers})
        self._senders = senders

    def _listens(self, identity: Identity) -> bool:
        """To candidates and voters; and of a node that only sends by an address, to one key at a time.

        Nobody says what its key is, and nothing hangs on it: it is told who carries the address. Another key at its
        address is listened to when the one before has been silent for a while.
        """
        if identity in self._identities:
            return True
        if identity.address not in self._senders:
            return False
        now = self._clock.monotonic()
        key, heard = self._strangers.get(identity.address, (identity.key, now))
        if key != identity.key and now - heard < 5 * _AGAIN:
            return False
        self._strangers[identity.address] = identity.key, now
        return True

    def _read(self) -> None:
        """Handle all datagrams that have arrived, then tell the kernel once."""
        try:
            self._read_burst()
        finally:
            self.machines.settle()

    def _read_burst(self) -> None:
        for _ in range(_BURST if self._socket is not None else 0):
            assert self._socket is not None
            try:
                datagram, (address, port, *_) = self._socket.recvfrom(_LARGEST)
            except BlockingIOError:
                return
            except OSError as error:  # a peer's machine says that nobody listens there
                _log.debug("a datagram could not be read", why=str(error))
                continue
            heard = self.talking.hear(datagram, address) if port == self._port else None
            if heard is not None:
                for answer in heard.answer:
                    self._send(answer, heard.sender)
                self.machines.heard(heard.sender, heard.words, settle=False)

    def _say(self) -> None:
        outbox, self.machines.outbox = self.machines.outbox, []
        if not outbox:
            return  # nothing is said of what is new, so nothing has to be on the disk first
        known = self.machines.known
        written = known.epochs == self._file.kept.epochs or self._keep(known)
        if not written:
            kept = self._file.kept.epochs
            outbox = [each for each in outbox if not _is_new(each[1], kept)]
        self._send_all(outbox)
        if written:
            self._keep(known)  # who carries what now: packets that wait to be led there do not wait for the disk

    def _keep(self, known: Known) -> bool:
        """Whether it is on the disk."""
        try:
            self._file.keep(known)
        except OSError as error:
            _log.error("new leases wait for the disk", why=str(error))
            return False
        return True

    def _send_all(self, outbox: Iterable[tuple[Identity, Word]]) -> None:
        by_peer: dict[Identity, list[Word]] = {}
        for identity, word in outbox:
            by_peer.setdefault(identity, []).append(word)
        for identity, words in by_peer.items():
            for datagram in self.talking.say(identity, words):
                self._send(datagram, identity)

    def _send(self, datagram: bytes, to: Identity) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(datagram, (to.address, self._port))
        except OSError as error:  # it is lost, as any datagram may be
            _log.debug("a datagram could not be sent", to=to.address, why=str(error))

    def _probe(self, address: str) -> None:
        def look() -> None:
            try:
                stranger = self._kernel.probe(address)
            except OSError as error:
                _log.warning("nobody can be asked who has an address", address=address, why=str(error))
                stranger = ""
            self._commands.append((lambda machines: machines.probed(address, stranger), Future()))
            os.eventfd_write(self._wake, 1)

        self._probes.submit(look)

    def _moved(self, address: str) -> None:
        self._tell(address)


def _is_new(word: Word, kept: Mapping[str, int]) -> bool:
    """Whether a word is about an epoch that the disk does not know of."""
    return isinstance(word, Ask | Grant) and word.epoch > kept.get(word.address, 0)
