"""The queue of keys to reconcile.

A key is in the queue at most once, and is never handed to two workers at the same time: a key added while it is being
worked on is set aside and queued again when its worker is done. So work on one key is in order, and many changes to one
object cost one reconcile. Failed keys return with exponential back-off, each by its own count; delays are spread so
that keys which failed together do not return together.

`run` moves delayed keys to the queue when they are due, and must be running for delays to end. After `shut_down` the
queue takes no new keys, gives out the ready ones, and then raises `ShutDown`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque

from tarmac.base.clock import Clock
from tarmac.base.metrics import Histogram
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import first
from tarmac.client.backoff import Backoff

FIRST_DELAY = 0.005
MAX_DELAY = 300.0
_SECONDS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)  # by decade


class ShutDown(Exception):
    """The queue is closed and empty."""


class WorkQueue:
    """A queue of keys for any number of workers: `key = await get()`, work, `done(key)`."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        randomness: Randomness,
        first_delay: float = FIRST_DELAY,
        longest_delay: float = MAX_DELAY,
    ) -> None:
        self.name = name
        self.adds = 0
        self.retries = 0
        self.waited = Histogram(_SECONDS)  # seconds from ready to taken
        self.worked = Histogram(_SECONDS)  # seconds from taken to done
        self._clock = clock
        self._randomness = randomness
        self._delays = (first_delay, longest_delay)
        self._ready: deque[str] = deque()
        self._queued: dict[str, float] = {}  # ready or set aside -> since when
        self._working: dict[str, float] = {}
        self._failures: dict[str, Backoff] = {}
        self._due: dict[str, float] = {}  # delayed -> when
        self._timeline: list[tuple[float, str]] = []  # heap; entries that `_due` no longer confirms are void
        self._sooner = asyncio.Event()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys ready to be worked on."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Keys waiting for their delay."""
        return len(self._due)

    @property
    def working(self) -> int:
        """Keys with a worker."""
        return len(self._working)

    def add(self, key: str) -> None:
        """Queue this key now. A pending delay is dropped."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._queued:
            return
        self.adds += 1
        self._queued[key] = self._clock.monotonic()
        if key not in self._working:
            self._ready.append(key)
            self._wake_one()

    def add_after(self, key: str, delay: float) -> None:
        """Queue this key after `delay` seconds, or earlier if it is already due earlier."""
        if delay <= 0:
            self.add(key)
            return
        when = self._clock.monotonic() + delay
        if self._closed or key in self._queued or self._due.get(key, when + 1) <= when:
            return
        self._due[key] = when
        heapq.heappush(self._timeline, (when, key))
        if self._timeline[0][0] == when:
            self._sooner.set()

    def add_rate_limited(self, key: str) -> None:
        """Queue this key again after a delay that grows with each failure."""
        backoff = self._failures.get(key)
        if backoff is None:
            backoff = self._failures[key] = Backoff(self._randomness, *self._delays)
        self.retries += 1
        self.add_after(key, backoff.next())

    def failures(self, key: str) -> int:
        """Failures since the last `forget`."""
        backoff = self._failures.get(key)
        return 0 if backoff is None else backoff.failures

    def forget(self, key: str) -> None:
        """Reset the failure count after a success."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """Return the next key; call `done` with it. Raises ShutDown."""
        while not self._ready:
            if self._closed:
                raise ShutDown
            await self._wait()
        key = self._ready.popleft()
        now = self._clock.monotonic()
        self.waited.observe(now - self._queued.pop(key))
        self._working[key] = now
        return key

    def done(self, key: str) -> None:
        """Release the key after its worker has finished, successful or not."""
        self.worked.observe(self._clock.monotonic() - self._working.pop(key))
        if key in self._queued:
            self._ready.append(key)
            self._wake_one()

    def shut_down(self) -> None:
        """Take no more keys; workers get the ready ones and then ShutDown."""
        self._closed = True
        self._due.clear()
        while self._getters:
            self._wake_one()

    async def run(self) -> None:
        """Move delayed keys when they are due, until cancelled."""
        while True:
            self._promote()
            self._sooner.clear()
            if self._timeline:
                await first(self._clock.sleep(self._timeline[0][0] - self._clock.monotonic()), self._sooner.wait())
            else:
                await self._sooner.wait()

    def _promote(self) -> None:
        now = self._clock.monotonic()
        while self._timeline and self._timeline[0][0] <= now:
            when, key = heapq.heappop(self._timeline)
            if self._due.get(key) == when:
                self.add(key)

    async def _wait(self) -> None:
        """Sleep until a key is ready.

        A getter cancelled after it was woken passes the wake-up on; cancelled waiters are skipped.
        """
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if not getter.cancelled():
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
