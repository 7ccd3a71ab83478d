"""Leader election through a Lease, with fencing.

Contenders judge a lease by when *they* last saw it change, on their own monotonic clock, never by comparing wall
clocks: the holder is safe for `lease_duration` after each renewal that the other contenders could see. The leader
allows itself less: it counts `renew_deadline` (shorter) from the moment it *sent* the last renewal that succeeded. So,
regardless of the network and the wall clocks, its own deadline passes before a contender may take the lease. At the
deadline
1. the work is cancelled, reconciles in progress included, and
2. `FencedTransport` refuses every further write, and gives no write more time than is left,

so a deposed leader's writes fail even if its work is slow to notice. This needs nothing of the server but
compare-and-swap, and therefore holds on a stock kube-apiserver. One case remains: a write that was handed to the
network before the deadline and takes effect after `lease_duration - renew_deadline` more seconds; updates carry a
resourceVersion and lose that race. Each time the lease is taken `leaseTransitions` goes up by one: that is the epoch,
unique to one leadership.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Conflict, NotFound
from tarmac.base.clock import Clock, rfc3339_micro
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError, NotLeader
from tarmac.client.targets.untyped import LEASES
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport

_log = log("leader")
_READS = frozenset(("GET", "HEAD", "OPTIONS"))
_NOTHING: Mapping[str, str] = {}


class Leadership:
    """The right to act, until its deadline on the monotonic clock. Renewals move the deadline; losing it is final."""

    def __init__(self, clock: Clock, epoch: int, deadline: float) -> None:
        self.epoch = epoch
        self._clock = clock
        self._deadline = deadline
        self._lost = False

    @property
    def remaining(self) -> float:
        """Seconds left without a further renewal."""
        return 0.0 if self._lost else max(0.0, self._deadline - self._clock.monotonic())

    def check(self) -> None:
        """Raises NotLeader once the deadline has passed."""
        if self.remaining <= 0:
            raise NotLeader(f"leadership of epoch {self.epoch} has ended")

    def extend(self, deadline: float) -> None:
        """Move the deadline after a renewal. A renewal after the deadline is too late."""
        self.check()
        self._deadline = deadline

    def lose(self) -> None:
        """End the leadership permanently."""
        self._lost = True


class FencedTransport:
    """Lets writes pass only during a leadership, with a timeout that ends with it."""

    def __init__(self, inner: Transport, leadership: Leadership) -> None:
        self._inner = inner
        self._leadership = leadership

    async def request(self, request: ClientRequest) -> Reply:
        """Send a request. Raises NotLeader for a write after the deadline."""
        if request.method not in _READS:
            self._leadership.check()
            left = self._leadership.remaining
            request = request._replace(timeout=left if request.timeout is None else min(request.timeout, left))
        return await self._inner.request(request)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        """Watches are reads."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Do nothing: the inner transport belongs to its creator."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of a lease, deadline of its leader, and retry period of all contenders, in seconds."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def renew_period(self) -> float:
        """Interval between renewals: more than half of the deadline is left for retries."""
        return (self.renew_deadline - self.retry_period) / 2

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise ValueError("lease_duration must exceed renew_deadline, and that retry_period")


Lead = Callable[[Leadership], Coroutine[Any, Any, None]]


class Elector:
    """One contender. `identity` must be unique to this process's run, so that no later run inherits a lease by name.

    `about` are annotations of the leader on the Lease, removed when it releases the lease.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        timing: Timing | None = None,
        about: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.name = name
        self._about = about
        self.identity = identity
        self.leading = False
        self._client = client
        self._clock = client.clock
        self._leases = client.resource(LEASES)
        self._namespace = namespace
        self._timing = timing or Timing()
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._written: JsonObject | None = None  # the Lease as written last; None when that write got no response

    async def run(self, lead: Lead) -> None:
        """Lead whenever possible, until cancelled or until `lead` returns by itself.

        `lead` is cancelled when leadership is lost and called again, from the start, when it is regained.
        """
        while True:
            leadership = await self._acquire()
            _log.info("leading", lease=self.name, identity=self.identity, epoch=leadership.epoch)
            self.leading = True
            try:
                finished = await self._hold(leadership, lead)
            finally:
                self.leading = False
                await self._release(leadership)
            if finished:
                return
            _log.warning("leadership lost", lease=self.name, identity=self.identity, epoch=leadership.epoch)

    async def _acquire(self) -> Leadership:
        while True:
            started = self._clock.monotonic()
            try:
                epoch = await self._try_to_take()
            except (ApiError, ClientError) as error:
                _log.debug("lease acquisition failed", lease=self.name, why=str(error))
                epoch = None
            if epoch is not None:
                leadership = Leadership(self._clock, epoch, started + self._timing.renew_deadline)
                if leadership.remaining > 0:
                    return leadership
            await self._clock.sleep(self._timing.retry_period * self._client.randomness.uniform(1.0, 1.5))

    async def _try_to_take(self) -> int | None:
        """Return the new epoch, or None while a different contender holds the lease."""
        try:
            lease = await self._leases.get(self.name, self._namespace)
        except NotFound:
            return await self._create()
        spec: JsonObject = lease.setdefault("spec", {})
        if not self._is_free(spec):
            return None
        epoch = (spec.get("leaseTransitions") or 0) + 1
        now = rfc3339_micro(self._clock.now())
        lease["spec"] = self._record(epoch, acquired=now, renewed=now)
        self._introduce(lease["metadata"])
        try:
            self._written = await self._leases.update(lease)
        except Conflict:
            return None
        return epoch

    async def _create(self) -> int | None:
        now = rfc3339_micro(self._clock.now())
        metadata: JsonObject = {"name": self.name, "namespace": self._namespace}
        self._introduce(metadata)
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": self._record(0, acquired=now, renewed=now),
        }
        try:
            self._written = await self._leases.create(lease)
        except AlreadyExists:
            return None
        return 0

    def _is_free(self, spec: JsonObject) -> bool:
        """True if the lease has no holder, or was unchanged for its whole duration while this process observed it."""
        if not spec.get("holderIdentity"):
            return True
        record = tuple(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions", "acquireTime"))
        now = self._clock.monotonic()
        if record != self._seen:
            self._seen, self._seen_at = record, now
        duration = spec.get("leaseDurationSeconds") or self._timing.lease_duration
        return now - self._seen_at > duration

    async def _hold(self, leadership: Leadership, lead: Lead) -> bool:
        """Work and renew; True when the work ended by itself, False when leadership did."""
        try:
            async with asyncio.TaskGroup() as group:
                work = group.create_task(lead(leadership))
                keepers = (
                    group.create_task(self._renew_while_leading(leadership, work)),
                    group.create_task(self._end_at_deadline(leadership, work)),
                )
                try:
                    await asyncio.wait((work,))
                finally:
                    for task in (work, *keepers):
                        task.cancel()
        except* NotLeader:
            leadership.lose()
        return leadership.remaining > 0

    async def _end_at_deadline(self, leadership: Leadership, work: asyncio.Task[None]) -> None:
        while leadership.remaining > 0:
            await self._clock.sleep(leadership.remaining)
        leadership.lose()
        work.cancel()

    async def _renew_while_leading(self, leadership: Leadership, work: asyncio.Task[None]) -> None:
        # Counted from when the last was sent: a renewal that takes seconds must not cost that time twice.
        started = self._clock.monotonic() + leadership.remaining - self._timing.renew_deadline
        pause = self._timing.renew_period
        while leadership.remaining > 0:
            await self._clock.sleep(started + pause - self._clock.monotonic())
            started, pause = self._clock.monotonic(), self._timing.retry_period
            try:
                await self._renew(leadership.epoch, timeout=leadership.remaining)
                leadership.extend(started + self._timing.renew_deadline)
                pause = self._timing.renew_period
            except NotLeader as error:
                _log.info("lease lost", lease=self.name, why=str(error))
                leadership.lose()
                work.cancel()
            except (ApiError, ClientError, TimeoutError) as error:
                _log.debug("renewal failed", lease=self.name, why=str(error))

    async def _renew(self, epoch: int, timeout: float) -> None:
        async with asyncio.timeout(max(timeout, 0.001)):
            # The Lease is nearly always as this process wrote it last; a change by a different writer makes this a
            # conflict.
            written, self._written = self._written, None
            if written is not None:
                with suppress(Conflict):
                    self._written = await self._leases.update(self._renewed(written, epoch))
                    return
            lease = await self._leases.get(self.name, self._namespace)
            spec: JsonObject = lease.get("spec") or {}
            if spec.get("holderIdentity") != self.identity or (spec.get("leaseTransitions") or 0) != epoch:
                raise NotLeader(f"held by {spec.get('holderIdentity')!r}")
            self._written = await self._leases.update(self._renewed(lease, epoch))

    def _renewed(self, lease: JsonObject, epoch: int) -> JsonObject:
        acquired, now = lease["spec"].get("acquireTime"), rfc3339_micro(self._clock.now())
        return {**lease, "spec": self._record(epoch, acquired=acquired, renewed=now)}

    async def _release(self, leadership: Leadership) -> None:
        """Let the next leader start at once; if that fails, the lease expires by itself."""
        if leadership.remaining <= 0:
            return
        leadership.lose()  # before the release: fenced writes must fail before the next leader can start
        try:
            lease = await self._leases.get(self.name, self._namespace)
            if lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                notes = lease["metadata"].get("annotations") or {}
                lease["metadata"]["annotations"] = {k: v for k, v in notes.items() if k not in self._about}
                await self._leases.update(lease)
        except (ApiError, ClientError) as error:
            _log.debug("lease release failed", lease=self.name, why=str(error))

    def _introduce(self, metadata: JsonObject) -> None:
        if self._about:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **self._about}

    def _record(self, epoch: int, *, acquired: str | None, renewed: str) -> JsonObject:
        return {
            "holderIdentity": self.identity,
            # rounded up: never less than this process relies on
            "leaseDurationSeconds": math.ceil(self._timing.lease_duration),
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": epoch,
        }
