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

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseCheckpoint, LeaseState
from tarmac.agent.egress.leases.kernelupdates import Kernel
from tarmac.agent.egress.leases.ownership import Ownership
from tarmac.agent.egress.leases.participant import TICK, LeaseParticipant
from tarmac.agent.egress.leases.transport import PeerTransport
from tarmac.api.networking.ports import LEASE_PORT
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.decide.egress.lease.messages import Ask, Grant, Together, Word

_MAX_DATAGRAM: Final = 4096
_MAX_BURST: Final = 64  # datagrams read before the timer is checked again
_MAX_PROBES: Final = 8  # addresses probed on their segments concurrently
_RETRY_INTERVAL: Final = 1.0

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
        file: LeaseCheckpoint,
        clock: Clock,
        draw: Callable[[int], bytes],
        moved: Callable[[str], None],
        port: int = LEASE_PORT,
        begin: Callable[[], None] = lambda: None,
        purpose: bytes = b"",
    ) -> None:
        """`begin` is called in the thread before anything else, for example to enter the node's network namespace.

        `purpose`: of the conversations with peers, which have one for each kind of leases.
        """
        self._purpose = purpose
        self._node, self._kernel, self._private, self._file = node, kernel, private, file
        self._clock, self._draw, self._on_moved, self._port, self._begin = clock, draw, moved, port, begin
        self._worker: _Worker | None = None
        self._ended: Counter[str] = Counter()
        self._takeovers: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._gaps: tuple[float, int] = (0.0, 0)

    @property
    def owned(self) -> Mapping[str, Ownership]:
        """The addresses that this node owns."""
        # Copied in one step under the GIL: the lease thread changes the original at any time.
        return dict(self._worker.participant.owned) if self._worker else {}

    @property
    def foreign_hosts(self) -> Mapping[str, str]:
        """Hardware addresses of foreign hosts, by the address that this node should own."""
        return dict(self._worker.participant.foreign_hosts) if self._worker else {}

    @property
    def takeovers(self) -> Mapping[str, int]:
        """The number of addresses taken over by this node, by cause."""
        # Copied in one step under the GIL, as above: adding counters walks over them.
        return self._takeovers + Counter(dict(self._worker.participant.takeovers) if self._worker else {})

    @property
    def gaps(self) -> tuple[float, int]:
        """Total seconds in which taken-over addresses had no owner, and the number of measurements."""
        seconds, number = self._worker.participant.gaps if self._worker else (0.0, 0)
        return self._gaps[0] + seconds, self._gaps[1] + int(number)

    @property
    def vote_seconds(self) -> Mapping[str, float]:
        """The duration of each voter's last answer in seconds."""
        return dict(self._worker.participant.votes.seconds) if self._worker else {}

    @property
    def votes_lost(self) -> Mapping[str, int]:
        """The number of requests that each voter never answered."""
        return self._lost + Counter(dict(self._worker.participant.votes.lost) if self._worker else {})

    @property
    def left(self) -> Mapping[str, float]:
        """The addresses owned by this node, with the seconds left until the kernel stops sending for them."""
        now = self._clock.monotonic()
        told = dict(self._worker.participant.kernel_until) if self._worker else {}
        return {address: until - now for address, until in told.items()}

    @property
    def dropped(self) -> Mapping[str, int]:
        """The number of dropped datagrams by cause."""
        return self._ended + (self._worker.transport.dropped if self._worker else Counter())

    async def serve(self, node_address: str, configs: Mapping[str, AddressConfig]) -> None:
        """Replace the configuration of all leases. It is in effect when this returns."""
        if self._worker is not None and self._worker.address != node_address:
            await self.close()
        if configs and self._worker is None:
            loop = asyncio.get_running_loop()
            # The callback runs in the thread: only this way may it reach the loop.
            tell = partial(loop.call_soon_threadsafe, self._on_moved)
            transport = (self._private, self._draw(32), self._purpose)
            self._worker = _Worker(
                self._node,
                node_address,
                self._port,
                self._kernel,
                transport,
                self._file,
                self._clock,
                tell,
                self._begin,
            )
        if self._worker is not None:
            await self._worker.do(lambda participant: participant.serve(configs))
        if not configs:
            await self.close()

    async def hand_over(self, *, force: bool = False) -> None:
        """Give addresses to other nodes before the agent exits."""
        if self._worker is not None:
            await self._worker.do(lambda participant: participant.hand_over(force=force))

    async def close(self) -> None:
        """End the thread. The kernel stops sending for owned addresses by itself when their leases end."""
        # Taken first: a call during the wait must not send commands to a thread that is ending.
        worker, self._worker = self._worker, None
        if worker is not None:
            self._ended.update(worker.transport.dropped)
            self._takeovers.update(worker.participant.takeovers)
            self._lost.update(worker.participant.votes.lost)
            self._gaps = self._gaps[0] + worker.participant.gaps[0], self._gaps[1] + int(worker.participant.gaps[1])
            # In a thread: the lease thread may be in a kernel call, and the event loop must not wait for it.
            await asyncio.to_thread(worker.end)


class _Worker:
    """The thread and its socket, from the first address until there are none."""

    def __init__(
        self,
        node: str,
        address: str,
        port: int,
        kernel: LeaseKernel,
        transport: tuple[bytes, bytes, bytes],
        file: LeaseCheckpoint,
        clock: Clock,
        tell: Callable[[str], object],
        begin: Callable[[], None],
    ) -> None:
        self.address = address
        self._port, self._kernel, self._file, self._clock, self._tell = port, kernel, file, clock, tell
        self.participant = LeaseParticipant(node, kernel, clock, file.saved, self._probe, self._on_moved)
        private, seed, purpose = transport
        self.transport = PeerTransport(private, seed, self._accepts, purpose)
        self._identities: dict[PeerIdentity, None] = {}
        self._senders: set[str] = set()
        self._sender_keys: dict[str, tuple[bytes, float]] = {}  # address -> key of a sender that is no voter, last use
        self._commands: deque[tuple[Callable[[LeaseParticipant], None], Future[None]]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._socket: socket.socket | None = None
        self._opens_at = float("-inf")
        self._written: tuple[int, int] | None = None  # `changes` as of the state on disk
        self._ending = False
        self._begin = begin
        self._probes = ThreadPoolExecutor(_MAX_PROBES, "probes")
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        # Last: the thread uses every attribute set above.
        self._thread.start()

    async def do(self, command: Callable[[LeaseParticipant], None]) -> None:
        """Run a command in the thread and wait for it."""
        done: Future[None] = Future()
        # Queued before the wake-up: the thread reads the queue once per event.
        self._commands.append((command, done))
        os.eventfd_write(self._wake, 1)
        await asyncio.wrap_future(done)

    def end(self) -> None:
        """Stop the thread and wait for it."""
        self._ending = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        # Before the descriptor is closed: a running probe still writes to it, and its number may be reused.
        self._probes.shutdown(cancel_futures=True)
        os.close(self._wake)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        # In this thread: setns changes the namespace of the calling thread only.
        self._begin()
        due = self._clock.monotonic()
        while not self._ending:
            try:
                self._open()
                self._wait(max(0.0, due - self._clock.monotonic()))
                self._run_commands()
                self._read()
                if self._clock.monotonic() >= due:
                    # Before the tick: a tick that fails is retried one interval later, not at once.
                    due = self._clock.monotonic() + TICK
                    self.participant.tick()
                self._flush_outbox()
            except Exception as error:  # the other leases must continue
                _log.error("lease step failed", error=repr(error))

    def _open(self) -> None:
        """Open a socket on the node's address, which may not exist yet."""
        now = self._clock.monotonic()
        if self._socket is not None or now < self._opens_at:
            return
        # Before the attempt: a failing bind must not be repeated in every step of the thread.
        self._opens_at = now + _RETRY_INTERVAL
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

    def _run_commands(self) -> None:
        try:
            # Before the queue is read: a command queued from here on wakes the thread again.
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return
        completed: list[Future[None]] = []
        while self._commands:
            command, done = self._commands.popleft()
            if not done.set_running_or_notify_cancel():
                continue  # the caller was cancelled before the command began; from here on it cannot be
            try:
                command(self.participant)
            except Exception as error:
                done.set_exception(error)
            else:
                completed.append(done)
        try:
            # Once for all: results of many probes arrive together.
            self.participant.settle()
            self._update_peers()
            # Before the caller continues: a stopping agent must have sent its releases by then.
            self._flush_outbox()
        except Exception as error:
            for done in completed:
                done.set_exception(error)
        else:
            for done in completed:
                done.set_result(None)

    def _update_peers(self) -> None:
        """Compute the set of peers to accept datagrams from."""
        configs = self.participant.configs.values()
        self._identities = {own: None for each in configs for own in (*each.candidates.values(), *each.voters.values())}
        senders = {address for each in configs for address in each.senders}
        self._sender_keys = {each: state for each, state in self._sender_keys.items() if each in senders}
        sender_identities = [PeerIdentity(address, key) for address, (key, _) in self._sender_keys.items()]
        # A voter that returns later starts a new session: datagrams of the old one cannot be replayed.
        self.transport.keep_only({*self._identities, *sender_identities})
        self._senders = senders

    def _accepts(self, identity: PeerIdentity) -> bool:
        """Accept candidates and voters, and from a node that only sends from an address one key at a time.

        No object states the key of such a node, and nothing depends on it: the node only learns the owner of the
        address. A different key at its address is accepted after the previous one has been silent for a while.
        """
        if identity in self._identities:
            return True
        if identity.address not in self._senders:
            return False
        now = self._clock.monotonic()
        key, received = self._sender_keys.get(identity.address, (identity.key, now))
        # Otherwise a second host with this address could replace the key of the first with every datagram.
        if key != identity.key and now - received < 5 * _RETRY_INTERVAL:
            return False
        self._sender_keys[identity.address] = identity.key, now
        return True

    def _read(self) -> None:
        """Handle all datagrams that have arrived, then update the kernel once."""
        try:
            self._read_burst()
        finally:
            self.participant.settle()

    def _read_burst(self) -> None:
        for _ in range(_MAX_BURST if self._socket is not None else 0):
            assert self._socket is not None
            try:
                # The kernel cuts a longer datagram, whose seal is wrong then.
                datagram, (address, port, *_) = self._socket.recvfrom(_MAX_DATAGRAM)
            except BlockingIOError:
                return
            except OSError as error:  # ICMP: the peer's host has no listener on the port
                _log.debug("datagram cannot be read", why=str(error))
                continue
            received = self.transport.receive(datagram, address) if port == self._port else None
            if received is not None:
                for answer in received.answer:
                    self._send(answer, received.sender)
                self.participant.receive(received.sender, received.messages, settle=False)

    def _flush_outbox(self) -> None:
        outbox, self.participant.outbox = self.participant.outbox, []
        if not outbox:
            return  # no message depends on new state, so nothing must be on disk first
        kept, changes = self._file.saved.epochs, self.participant.changes
        if changes == self._written and not any(_is_new(message, kept) for _, message in outbox):
            self._send_all(outbox)  # renewals, nearly always: their epochs are on disk
            return
        state = self.participant.state
        # On disk before a promise leaves: a voter that restarts and forgets it could promise the address twice.
        written = state.epochs == kept or self._save(state)
        if not written:
            # The disk failed: messages about epochs that it holds already may go, new promises may not.
            outbox = [each for each in outbox if not _is_new(each[1], kept)]
        self._send_all(outbox)
        # Owners are written last: packets that wait for the new route do not wait for the disk.
        if written and self._save(state):
            self._written = changes

    def _save(self, state: LeaseState) -> bool:
        """Write the checkpoint. Return False if the disk failed."""
        try:
            self._file.save(state)
        except OSError as error:
            _log.error("lease checkpoint write failed, new leases wait", why=str(error))
            return False
        return True

    def _send_all(self, outbox: Iterable[tuple[PeerIdentity, Word | Together]]) -> None:
        by_peer: dict[PeerIdentity, list[Word | Together]] = {}
        for identity, message in outbox:
            by_peer.setdefault(identity, []).append(message)
        for identity, messages in by_peer.items():
            for datagram in self.transport.datagrams_for(identity, messages):
                self._send(datagram, identity)

    def _send(self, datagram: bytes, to: PeerIdentity) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(datagram, (to.address, self._port))
        except OSError as error:  # lost, as any datagram may be
            _log.debug("datagram cannot be sent", to=to.address, why=str(error))

    def _probe(self, address: str) -> None:
        def probe() -> None:
            try:
                foreign_host = self._kernel.probe(address)
            except OSError as error:
                _log.warning("address probe failed", address=address, why=str(error))
                foreign_host = ""
            result = partial(LeaseParticipant.probed, address=address, foreign_host=foreign_host, settle=False)
            # Through the queue: only the lease thread may touch the participant.
            self._commands.append((result, Future()))
            os.eventfd_write(self._wake, 1)

        self._probes.submit(probe)

    def _on_moved(self, address: str) -> None:
        self._tell(address)


def _is_new(message: Word | Together, kept: Mapping[str, int]) -> bool:
    """Return True if a message is about an epoch that is not on disk yet."""
    return isinstance(message, Ask | Grant) and message.epoch > kept.get(message.address, 0)
