"""Fair queueing of requests by CPU time: one noisy client cannot starve the other clients.

Requests of one user form a flow; requests without a user, and those whose credential is refused, form one by client
address (IPv6: by /64). Flows share the event loop by the time that their requests take of it, whatever their number:

- A loop iteration runs requests for `TURN` seconds (`TURN_ALONE` while one flow is active). Later requests are queued.
  A request runs to the next point at which it waits, 50 ms at most, so an iteration is longer by one such step at most.
- Each flow has a virtual time, to which the time of its requests is added. Of the queued requests, those of the flow
  with the earliest virtual time are next, so a flow that used less than its share is never behind the queue of one that
  used more. A flow that was idle continues at the virtual time of the request served last: it has saved up nothing.
- A flow has at most `in_flight` requests that wait for the disk or a peer.

Queues are bounded; if one is full, the client gets 429. Watches leave as soon as they have started, so they are never
limited. The time is measured between two reads of the clock around each step, which include waits for other threads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from heapq import heappop, heappush
from ipaddress import ip_address
from itertools import count
from typing import Final

from tarmac.api.status import TooManyRequests
from tarmac.base.boundedcache import bounded_cache
from tarmac.http.messages import Request
from tarmac.server.security.users import ANONYMOUS

TURN: Final = 0.005
TURN_ALONE: Final = 0.05
_ALONE_AFTER: Final = 0.5  # seconds of one flow's requests without any of another
_IDLE_FLOWS: Final = 4096
_MIN_ESTIMATE: Final = 20e-6
_SMOOTHING: Final = 8  # requests over which the duration of a flow's requests is averaged

Turn = asyncio.Future[float]
"""Resolves to the time that its request is expected to take."""


class _Flow:
    """One user's requests."""

    __slots__ = ("estimate", "expected", "in_flight", "listed", "paused", "queued", "time", "waiting")

    def __init__(self) -> None:
        self.time = 0.0  # virtual, in seconds
        self.expected = 0.0  # of requests that were admitted and have not run yet
        self.estimate = _MIN_ESTIMATE
        self.in_flight = 0
        self.queued = 0  # requests that wait for their turn, or whose turn has come and that have not run yet
        self.listed = False  # in the heap of queued flows
        self.waiting: deque[Turn] = deque()  # to be admitted
        self.paused: deque[Turn] = deque()  # admitted, to go on


class Fairness:
    """Admits requests, in turn if flows compete. For one event loop."""

    def __init__(self, in_flight: int = 256, queue: int = 4096, share: int = 1) -> None:
        """`share`: the number of server processes; each gets that fraction of the limits."""
        self._in_flight = max(1, in_flight // share)
        self._queue = max(1, queue // share)
        self._flows: dict[str, _Flow] = {}
        self._max_flows = _IDLE_FLOWS
        self._latest: _Flow | None = None
        self._alone = 0.0  # seconds spent since two different flows followed each other
        self._spent = 0.0  # seconds since the last reset, at the earliest in this iteration
        self._resetting = False
        self._time = 0.0  # virtual time: the start of the request served last
        self._queued: list[tuple[float, int, _Flow]] = []  # heap of flows with queued requests
        self._order = count()
        self._draining = False

    @property
    def waiting(self) -> int:
        """The number of queued requests, for metrics."""
        return sum(len(flow.waiting) + len(flow.paused) for flow in self._flows.values())

    def enter(self, request: Request) -> Awaitable[None] | None:
        """Return None to proceed, or an awaitable to wait for. Call `leave` after each `enter`.

        Raises TooManyRequests.
        """
        name = flow_of(request)
        flow = self._flows.get(name) or self._new_flow(name)
        if flow is not self._latest:
            self._latest, self._alone = flow, 0.0
        if not flow.queued:
            # A flow that was idle does not save up its turns: it would otherwise hold the loop when it returns.
            flow.time = max(flow.time, self._time)
        if not flow.waiting and flow.in_flight < self._in_flight and self._has_room(flow):
            flow.in_flight += 1
            self._time = max(flow.time, self._time)
            return None
        if len(flow.waiting) >= self._queue:
            text = "Too many requests, please try again later."
            raise TooManyRequests(text, details={"retryAfterSeconds": 1}, headers=[("Retry-After", "1")])
        return self._in_turn(flow, entering=True)

    def pause(self, request: Request) -> Awaitable[None] | None:
        """Like `enter`, for an admitted request that is about to use the loop in a later iteration."""
        flow = self._flows[flow_of(request)]
        if not flow.paused and self._has_room(flow):
            return None
        return self._in_turn(flow, entering=False)

    def spend(self, request: Request, seconds: float) -> None:
        """Charge time on the loop to the request's flow."""
        flow = self._flows[flow_of(request)]
        flow.time += seconds
        flow.estimate += (max(seconds, _MIN_ESTIMATE) - flow.estimate) / _SMOOTHING
        self._alone += seconds
        self._spent += seconds
        # Iterations that spend little are not told apart: a reset for each would cost more than the accounting.
        if self._spent > TURN / 2 and not self._resetting:
            # Once per iteration of the loop, whose next one begins with the full time.
            self._resetting = True
            asyncio.get_running_loop().call_soon(self._reset)

    def leave(self, request: Request) -> None:
        """Record that an admitted request was answered."""
        self._release(self._flows[flow_of(request)])

    def _release(self, flow: _Flow) -> None:
        flow.in_flight -= 1
        if flow.waiting:
            self._list(flow)

    def _reset(self) -> None:
        self._resetting, self._spent = False, 0.0

    def _new_flow(self, name: str) -> _Flow:
        if len(self._flows) >= self._max_flows:
            # Flows with requests keep their object: those requests charge it when they end.
            kept = {key: flow for key, flow in self._flows.items() if flow.in_flight or flow.waiting}
            self._flows, self._max_flows = kept, max(_IDLE_FLOWS, 2 * len(kept))
        flow = self._flows[name] = _Flow()
        return flow

    def _has_time(self) -> bool:
        return self._spent < (TURN if self._alone < _ALONE_AFTER else TURN_ALONE)

    def _has_room(self, flow: _Flow) -> bool:
        """Return whether a request may run now, ahead of those that are queued."""
        return self._has_time() and (not self._queued or flow.time + flow.expected <= self._time)

    def _enqueue(self, flow: _Flow, line: deque[Turn], *, first: bool = False) -> Turn:
        turn: Turn = asyncio.get_running_loop().create_future()
        flow.queued += 1
        line.insert(0 if first else len(line), turn)
        self._list(flow)
        return turn

    def _list(self, flow: _Flow) -> None:
        """Put a flow with queued requests into the heap, and have it drained after the socket events."""
        if not flow.listed:
            flow.listed = True
            heappush(self._queued, (flow.time + flow.expected, next(self._order), flow))
        if not self._draining:
            self._draining = True
            # Not `call_soon`: requests that arrive in this iteration take part, and sockets are served between two
            # turns.
            asyncio.get_running_loop().call_later(0, self._drain)

    async def _in_turn(self, flow: _Flow, *, entering: bool) -> None:
        """Wait for a turn, and for a further one if requests before it took all the time of this iteration.

        The request is queued here and not by the caller: a task that is cancelled before it starts must leave no trace.
        """
        admitted = not entering
        turn = self._enqueue(flow, flow.waiting if entering else flow.paused)
        try:
            while True:
                expected = await turn
                flow.queued -= 1
                flow.expected -= expected
                admitted = True
                if self._has_time():
                    break
                # At the front: it was admitted before the others, and would starve behind new ones.
                turn = self._enqueue(flow, flow.paused, first=True)
        except asyncio.CancelledError:
            flow.queued -= 1
            if turn.done() and not turn.cancelled():  # cancelled after its turn had come
                flow.expected -= turn.result()
                admitted = True
            if entering and admitted:  # the caller never learns that it has entered, so it does not leave
                self._release(flow)
            raise
        self._time = max(flow.time, self._time)

    def _drain(self) -> None:
        """Admit requests of the flows with the earliest times: as many as are expected to fit into an iteration."""
        self._draining = False
        left = TURN
        while self._queued and left > 0:
            place, _, flow = heappop(self._queued)
            flow.listed = False
            if place < flow.time + flow.expected:  # it was charged meanwhile: back to its place
                self._list_again(flow)
            elif self._admit_one(flow):
                left -= flow.estimate
                self._list_again(flow)
        if self._queued:
            self._list(self._queued[0][2])

    def _list_again(self, flow: _Flow) -> None:
        if flow.paused or flow.waiting:
            self._list(flow)

    def _admit_one(self, flow: _Flow) -> bool:
        """Give the flow's next request its turn. Return False if it has none, or too many in flight."""
        for line in (flow.paused, flow.waiting):
            # Cancelled ones stay in the line until here: removing them from its middle would cost a search.
            while line and line[0].done():  # cancelled
                line.popleft()
            if line and (line is flow.paused or flow.in_flight < self._in_flight):
                # Counted at the admission, not when the task runs: further ones admitted in this round must see it.
                flow.in_flight += line is flow.waiting
                flow.expected += flow.estimate
                line.popleft().set_result(flow.estimate)
                return True
        return False


def flow_of(request: Request) -> str:
    """Return the name of a request's flow: its user, or the client's address if it has none."""
    user = request.user
    if user is None or user is ANONYMOUS:
        return _network(request.peer_address)
    return user.name


@bounded_cache(1024)
def _network(address: str) -> str:
    """Return the part of an address that one client has to itself; the name of no user begins like it."""
    if ":" not in address:
        return f"\0{address}"
    return f"\0{ip_address(address.partition('%')[0]).packed[:8].hex()}"
