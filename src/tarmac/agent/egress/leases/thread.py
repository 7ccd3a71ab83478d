"""The lease thread: waits for datagrams and timers only.

Leases are renewed and votes are given here, independently of the load of the agent's event loop. The thread and its
socket exist while there are addresses that concern this node. Commands arrive through a queue and run between two
datagrams; results leave through a non-blocking callback.

No message is sent before the state that must survive the agent is on disk. If a write fails, only messages about new
epochs are held back; promises and requests for epochs that are on disk continue.
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

from tarmac.agent.egress.leases.addressconfig import Identity, Terms
from tarmac.agent.egress.leases.checkpoint import Known, LeaseFile
from tarmac.agent.egress.leases.participant import TICK, Carrying, Kernel, LeaseNode
from tarmac.agent.egress.leases.transport import Talking
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.messages import Ask, Grant, Together, Word

PORT: Final = 4801
_LARGEST: Final = 4096
_BURST: Final = 64  # datagrams read before the timer is checked again
_PROBES: Final = 8  # addresses probed on their segments concurrently
_AGAIN: Final = 1.0

_log = log("external")


class LeaseKernel(Kernel, Protocol):
    """Datapath calls used by the lease thread."""

    def probe(self, address: str) -> str:
        """Return the hardware address of a foreign host that uses an address; empty if none answers."""
        ...


class LeaseThread:
    """All leases of one node.

    Used from the agent's event loop, which calls `moved` with each address that has moved.
    """

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
        """`begin` is called in the thread before anything else, for example to enter the node's network namespace."""
        self._node, self._kernel, self._private, self._file = node, kernel, private, file
        self._clock, self._draw, self._moved, self._port, self._begin = clock, draw, moved, port, begin
        self._life: _Life | None = None
        self._ended: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._gaps: tuple[float, int] = (0.0, 0)

    @property
    def carrying(self) -> Mapping[str, Carrying]:
        """The addresses that this node owns."""
        return dict(self._life.machines.carrying) if self._life else {}

    @property
    def strangers(self) -> Mapping[str, str]:
        """Hardware addresses of foreign hosts, by the address that this node should own."""
        return dict(self._life.machines.strangers) if self._life else {}

    @property
    def taken(self) -> Mapping[str, int]:
        """The number of addresses taken over by this node, by cause."""
        return self._taken + (self._life.machines.taken if self._life else Counter())

    @property
    def gaps(self) -> tuple[float, int]:
        """Total seconds in which taken-over addresses had no owner, and the number of measurements."""
        seconds, number = self._life.machines.gaps if self._life else (0.0, 0)
        return self._gaps[0] + seconds, self._gaps[1] + int(number)

    @property
    def vote_seconds(self) -> Mapping[str, float]:
        """The duration of each voter's last answer in seconds."""
        return dict(self._life.machines.votes.seconds) if self._life else {}

    @property
    def votes_lost(self) -> Mapping[str, int]:
        """The number of requests that each voter never answered."""
        return self._lost + (self._life.machines.votes.lost if self._life else Counter())

    @property
    def left(self) -> Mapping[str, float]:
        """The addresses owned by this node, with the seconds left until the kernel stops sending for them."""
        now = self._clock.monotonic()
        told = dict(self._life.machines.told_kernel) if self._life else {}
        return {address: until - now for address, until in told.items()}

    @property
    def dropped(self) -> Mapping[str, int]:
        """The number of dropped datagrams by cause."""
        return self._ended + (self._life.talking.dropped if self._life else Counter())

    async def serve(self, node_address: str, terms: Mapping[str, Terms]) -> None:
        """Replace the configuration of all leases. It is in effect when this returns."""
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
        """Give addresses to other nodes before the agent exits."""
        if self._life is not None:
            await self._life.do(lambda machines: machines.hand_over(whatever=whatever))

    async def close(self) -> None:
        """End the thread. The kernel stops sending for owned addresses by itself when their leases end."""
        life, self._life = self._life, None
        if life is not None:
            self._ended.update(life.talking.dropped)
            self._taken.update(life.machines.taken)
            self._lost.update(life.machines.votes.lost)
            self._gaps = self._gaps[0] + life.machines.gaps[0], self._gaps[1] + int(life.machines.gaps[1])
            await asyncio.to_thread(life.end)


class _Life:
    """The thread and its socket, from the first address until there are none."""

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
        self._strangers: dict[str, tuple[bytes, float]] = {}  # address -> key of a sender that is no voter, last heard
        self._commands: deque[tuple[Callable[[LeaseNode], None], Future[None]]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._socket: socket.socket | None = None
        self._opens_at = float("-inf")
        self._written: tuple[int, int] | None = None  # `changes` as of the state on disk
        self._ending = False
        self._begin = begin
        self._probes = ThreadPoolExecutor(_PROBES, "probes")
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._thread.start()

    async def do(self, command: Callable[[LeaseNode], None]) -> None:
        """Run a command in the thread and wait for it."""
        done: Future[None] = Future()
        self._commands.append((command, done))
        os.eventfd_write(self._wake, 1)
        await asyncio.wrap_future(done)

    def end(self) -> None:
        """Stop the thread and wait for it."""
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
                    )  # before the tick: a tick that fails is retried one interval later, not at once
                    self.machines.tick()
                self._say()
            except Exception as error:  # the other leases must continue
                _log.error("lease step failed", error=repr(error))

    def _open(self) -> None:
        """Open a socket on the node's address, which may not exist yet."""
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
            _log.warning(
                "lease socket cannot be bound, will retry", address=self.address, port=self._port, why=str(error)
            )
            return
        self._socket = made

    def _wait(self, seconds: float) -> None:
        waiting = select.poll()  # not select(), which rejects descriptors from 1024 on: agents with many pods have them
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
                continue  # the caller was cancelled before the command began; from here on it cannot be
            try:
                command(self.machines)
                self._meet()
                self._say()  # before the caller continues: a stopping agent must have sent its releases by then
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

    def _meet(self) -> None:
        """Compute the set of peers to accept datagrams from."""
        terms = self.machines.terms.values()
        self._identities = {own: None for each in terms for own in (*each.candidates.values(), *each.voters.values())}
        senders = {address for each in terms for address in each.senders}
        self._strangers = {each: known for each, known in self._strangers.items() if each in senders}
        strangers = [Identity(address, key) for address, (key, _) in self._strangers.items()]
        self.talking.keep_only({*self._identities, *strangers})
        self._senders = senders

    def _listens(self, identity: Identity) -> bool:
        """Accept candidates and voters, and from a node that only sends from an address one key at a time.

        No object states the key of such a node, and nothing depends on it: the node only learns the owner of the
        address. A different key at its address is accepted after the previous one has been silent for a while.
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
        """Handle all datagrams that have arrived, then update the kernel once."""
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
            except OSError as error:  # ICMP: the peer's host has no listener on the port
                _log.debug("datagram cannot be read", why=str(error))
                continue
            heard = self.talking.hear(datagram, address) if port == self._port else None
            if heard is not None:
                for answer in heard.answer:
                    self._send(answer, heard.sender)
                self.machines.heard(heard.sender, heard.words, settle=False)

    def _say(self) -> None:
        outbox, self.machines.outbox = self.machines.outbox, []
        if not outbox:
            return  # no message depends on new state, so nothing must be on disk first
        kept, changes = self._file.kept.epochs, self.machines.changes
        if changes == self._written and not any(_is_new(word, kept) for _, word in outbox):
            self._send_all(outbox)  # renewals, nearly always: their epochs are on disk
            return
        known = self.machines.known
        written = known.epochs == kept or self._keep(known)
        if not written:
            outbox = [each for each in outbox if not _is_new(each[1], kept)]
        self._send_all(outbox)
        # Owners are written last: packets that wait for the new route do not wait for the disk.
        if written and self._keep(known):
            self._written = changes

    def _keep(self, known: Known) -> bool:
        """Write the checkpoint. Return False if the disk failed."""
        try:
            self._file.keep(known)
        except OSError as error:
            _log.error("lease checkpoint write failed, new leases wait", why=str(error))
            return False
        return True

    def _send_all(self, outbox: Iterable[tuple[Identity, Word | Together]]) -> None:
        by_peer: dict[Identity, list[Word | Together]] = {}
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
        except OSError as error:  # lost, as any datagram may be
            _log.debug("datagram cannot be sent", to=to.address, why=str(error))

    def _probe(self, address: str) -> None:
        def look() -> None:
            try:
                stranger = self._kernel.probe(address)
            except OSError as error:
                _log.warning("address probe failed", address=address, why=str(error))
                stranger = ""
            self._commands.append((lambda machines: machines.probed(address, stranger), Future()))
            os.eventfd_write(self._wake, 1)

        self._probes.submit(look)

    def _moved(self, address: str) -> None:
        self._tell(address)


def _is_new(word: Word | Together, kept: Mapping[str, int]) -> bool:
    """Return True if a message is about an epoch that is not on disk yet."""
    return isinstance(word, Ask | Grant) and word.epoch > kept.get(word.address, 0)
