"""Admits requests with long computations a few at a time, users in turn.

Threads of one interpreter share its lock, so more threads make no computation faster and every other one slower. So a
few run at once, one of each user, and the users with waiting requests are served in rotation: a user with sixty plans
delays the plan of a different user by one plan at most. A user whose queue is full gets 429.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final

from tarmac.api.status import TooManyRequests
from tarmac.http.messages import Request, Response

Answer = Callable[[Request], Awaitable[Response]]
_RETRY: Final = 1  # seconds


class UserQueue:
    """`name` is the plural of the requests for messages. A user has one running and at most `waiting` queued."""

    def __init__(self, name: str, slots: int, waiting: int) -> None:
        self._name = name
        self._free = slots
        self._max_waiting = waiting
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # by user, the next one to be served first

    def route(self, answer: Answer) -> Answer:
        """Return an endpoint that answers in turn. Its task may be cancelled only after its thread has ended."""

        async def in_turn(request: Request) -> Response:
            await self._enter(request.user.name)
            try:
                return await answer(request)
            finally:
                # Only after the thread has ended (`run_in_thread`): a slot freed earlier would start one more thread
                # for the user.
                self._leave(request.user.name)

        return in_turn

    async def _enter(self, user: str) -> None:
        # A user with queued requests waits behind them even when a slot is free, or a later request would overtake.
        if user not in self._queues and self._free and not self._running[user]:
            self._take(user)
            return
        queue = self._queues.setdefault(user, deque())
        if len(queue) >= self._max_waiting:
            raise self._refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._withdraw(user, turn)
            else:  # cancelled after it was admitted: give the slot back
                self._leave(user)
            raise

    def _refusal(self) -> TooManyRequests:
        text = (
            f"{self._name}: {self._max_waiting} of yours wait already, and one is computed at a time; "
            "retry when one of them is answered"
        )
        return TooManyRequests(text, details={"retryAfterSeconds": _RETRY}, headers=[("Retry-After", str(_RETRY))])

    def _take(self, user: str) -> None:
        self._free -= 1
        self._running[user] += 1

    def _leave(self, user: str) -> None:
        self._free += 1
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]
        self._admit()

    def _admit(self) -> None:
        """Give free slots to users in rotation. Users that are passed over have one running: no more than slots."""
        for user in list(self._queues):
            if not self._free:
                return
            if not self._running[user]:
                queue = self._queues.pop(user)
                self._admit_first(user, queue)
                if queue:
                    self._queues[user] = queue  # behind all other users

    def _admit_first(self, user: str, queue: deque[asyncio.Future[None]]) -> None:
        while queue:
            turn = queue.popleft()
            if not turn.done():  # else cancelled, and its task has not heard of it yet
                self._take(user)
                turn.set_result(None)
                return

    def _withdraw(self, user: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(user)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[user]
