"""Fair queueing of requests: one noisy client cannot starve the other clients.

Requests of one user form a flow. Two resources are limited, and only while several flows compete:

- the event loop: in one iteration a flow is served `burst` times and its remaining requests wait for later iterations,
  so a client with a thousand connections delays a request of a different client by a few milliseconds only;
- requests in flight (waiting for the disk): a flow has at most `in_flight` of them.

Queues are bounded too; if a queue is full, the client gets 429. A flow within its limits costs two lookups. Watches
leave as soon as they have started, so they are never limited.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf

from tarmac.api.status import TooManyRequests
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.users import User

_IDLE_FLOWS = 4096


class _Flow:
    """One user's requests."""

    __slots__ = ("in_flight", "round", "served", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.round = 0.0  # the loop iteration that `served` counts for
        self.served = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Fairness:
    """Admits requests, in turn if flows compete.

    `now` is the loop's time. In uvloop it is constant during one iteration, so it identifies the iteration.
    """

    def __init__(
        self,
        now: Callable[[], float] | None = None,
        burst: int = 64,
        in_flight: int = 256,
        queue: int = 4096,
        memory: float = 1.0,
        share: int = 1,
    ) -> None:
        """`share`: the number of server processes; each gets that fraction of the limits."""
        self._now = now or asyncio.get_running_loop().time
        self._burst = burst
        self._in_flight = max(1, in_flight // share)
        self._queue = max(1, queue // share)
        self._memory = memory  # seconds for which a second client counts as active
        self._flows: dict[str, _Flow] = {}
        self._latest: _Flow | None = None
        self._alternated = -inf  # time at which two different flows last followed each other
        self._draining = False

    @property
    def waiting(self) -> int:
        """The number of queued requests, for metrics."""
        return sum(len(flow.waiting) for flow in self._flows.values())

    def enter(self, user: User, info: RequestInfo) -> Awaitable[None] | None:
        """Return None to proceed, or an awaitable to wait for.

        Raises TooManyRequests. Call `leave` after each `enter`.
        """
        flow = self._flows.get(user.name) or self._new_flow(user.name)
        now = self._now()
        if flow is not self._latest:
            if self._latest is not None:
                self._alternated = now
            self._latest = flow
        if flow.round != now:
            flow.round = now
            flow.served = 0
        flow.served += 1
        alone = now - self._alternated > self._memory
        if (flow.served <= self._burst or alone) and flow.in_flight < self._in_flight and not flow.waiting:
            flow.in_flight += 1
            return None
        return self._wait(flow)

    def leave(self, user: User, info: RequestInfo) -> None:
        """Record that an admitted request was answered."""
        flow = self._flows[user.name]
        flow.in_flight -= 1
        if flow.waiting:
            self._drain_soon()

    def _new_flow(self, name: str) -> _Flow:
        if len(self._flows) >= _IDLE_FLOWS:
            self._flows = {key: flow for key, flow in self._flows.items() if flow.in_flight or flow.waiting}
        flow = self._flows[name] = _Flow()
        return flow

    def _wait(self, flow: _Flow) -> Awaitable[None]:
        if len(flow.waiting) >= self._queue:
            headers = [("Retry-After", "1")]
            text = "Too many requests, please try again later."
            raise TooManyRequests(text, details={"retryAfterSeconds": 1}, headers=headers)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.waiting.append(turn)
        self._drain_soon()
        return self._turn(flow, turn)

    async def _turn(self, flow: _Flow, turn: asyncio.Future[None]) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # cancelled after it was admitted: give the slot back
                flow.in_flight -= 1
            raise

    def _drain_soon(self) -> None:
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_later(0, self._drain)

    def _drain(self) -> None:
        """Admit the next requests of every flow. If some still wait, schedule a further drain, after socket events."""
        self._draining = False
        more = False
        for flow in self._flows.values():
            if flow.waiting:
                more |= self._drain_flow(flow)
        if more:
            self._drain_soon()

    def _drain_flow(self, flow: _Flow) -> bool:
        """Admit up to `burst` requests of a flow. Return True if more could go ahead in the next iteration."""
        for _ in range(self._burst):
            while flow.waiting and flow.waiting[0].done():
                flow.waiting.popleft()
            if not flow.waiting or flow.in_flight >= self._in_flight:
                return False
            flow.in_flight += 1
            flow.waiting.popleft().set_result(None)
        return bool(flow.waiting)
