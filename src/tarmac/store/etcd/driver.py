"""The driver: in-memory state fed by a watch on etcd.

State is loaded once, page by page at one revision; from then on only the watch changes it, also for writes of this
server. A write is acknowledged when the watch has delivered its revision, so a writer with the acknowledgement can read
it here; a refusal is reported when the watch has delivered its cause.

Other servers write to the same etcd, so memory is a moment behind. `fresh` reads etcd's revision and waits until the
watch has reached it; it requests progress reports, for the newest revision may belong to a key outside the prefix. etcd
versions that report progress too early are not trusted: there `fresh` reads the newest revision among the store's own
keys, which costs etcd a scan of them, but which the watch must deliver.

The watch reconnects to a different member from the revision it reached. If etcd has compacted that revision meanwhile,
or the offset of revisions has changed, the state is loaded again and subscribers get an empty batch, which means that
events were lost.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import FIRST_ATTEMPT_TIMEOUT, MAX_ATTEMPT_TIMEOUT, EtcdClient, Lost, WatchStream
from tarmac.store.etcd.compaction import Compaction
from tarmac.store.etcd.fillmark import FillMark, read_mark, write_mark
from tarmac.store.etcd.format import FORMAT, check_format, raise_format
from tarmac.store.etcd.loading import open_first, pages
from tarmac.store.etcd.memberfollower import MemberFollower
from tarmac.store.etcd.offset import write_offset
from tarmac.store.etcd.questions import changes_after, newest
from tarmac.store.etcd.records import EtcdLayout
from tarmac.store.etcd.restoring import finish_restore
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.etcd.writing import NO_GUARDS, Intent, put, remove
from tarmac.store.interface import Compacted, Entry, Event, FutureRevision, Observer, Sealer, Unavailable
from tarmac.store.state import VisibleState

_log = log("store.etcd")

_MAX_CONCURRENT_WRITES = 256
_TIMEOUT = 4.5  # of a read or a write: longer than an election, and a client gets its 503 within 5 s
_NO_QUORUM = "etcd did not answer in time: it has no leader, or cannot be reached"
_PROGRESS_INTERVAL = 0.05  # between two progress requests
_RETRY_DELAY = 0.05


class EtcdStore(VisibleState):
    """A store that several servers may share."""

    def __init__(
        self,
        settings: EtcdSettings,
        *,
        sealer: Sealer | None = None,
        clock: Clock | None = None,
        observer: Observer | None = None,
        randomness: Randomness | None = None,
        filling: bool = False,
    ) -> None:
        """Configure; `filling` allows a prefix whose copy from a different store is incomplete."""
        super().__init__()
        self._filling = filling
        self.mark: FillMark | None = None  # of such a copy, as of the last complete load
        self._settings = settings
        self._clock: Clock = clock or SystemClock()
        self._observer = observer
        self._randomness = randomness or Randomness()
        self._client = EtcdClient(settings, self._clock)
        self._follower = (
            MemberFollower(self._client, settings.endpoints, settings.members, self._clock)
            if settings.members is not None
            else None
        )
        self._records = EtcdLayout(settings.prefix, sealer)
        self._tasks = Tasks()
        self._writes = Tasks()
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)
        self._intents: dict[bytes, list[Intent]] = {}
        self._waiting: list[tuple[int, int, Future[None]]] = []  # heap: revision, tie-breaker, waiter
        self._ties = itertools.count()
        self._stream: WatchStream | None = None
        self._trusts_progress = False
        self._warned = False
        self._newest = 0  # the newest revision that changed a key below the prefix
        self._guards: dict[bytes, int] = {}  # guard key -> revision of the last visible write under it
        self._fence_turn = asyncio.Lock()
        self._barrier: Future[None] | None = None
        self._barrier_turn = asyncio.Lock()
        self._closing = False
        # False after an unanswered read or write. The watch alone proves nothing: it stays open without a quorum.
        self._answers = True

    async def start(self) -> None:
        """Load everything and start the watch. Raises Unavailable."""
        try:
            self._trusts_progress = await self._check_version()
            await finish_restore(self._client, self._records)
            await self._load()
            if self.mark is not None and not self.mark.complete and not self._filling:
                raise Unavailable(
                    f"the objects below {self._settings.prefix} are only a part: a copy from another store was "
                    "interrupted; run `tarmac store migrate` again where it ran, or choose another prefix"
                )
        except BaseException:
            await self._client.close()
            raise
        self._tasks.begin(self._follow(), "watch on etcd")
        if self._settings.compact_seconds:
            self._tasks.begin(self._compact_for_ever(), "compaction of etcd")
        if self._follower is not None:
            self._tasks.begin(self._follower.run(), "members of etcd")

    async def close(self) -> None:
        """Complete accepted writes, close the connections."""
        self._closing = True
        await self._writes.settled()  # first: a write is acknowledged by the watch, which ends with the tasks
        await self._tasks.close()
        await self._client.close()

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """`store`: the reason why writes are refused."""
        return {"store": self._trouble}

    def members(self) -> Mapping[str, bool]:
        """Voting members of an etcd that Tarmac runs, and whether each responds."""
        return self._follower.answering if self._follower is not None else {}

    def _trouble(self) -> str | None:
        if self._closing:
            return "the store is shutting down"
        if not self._answers:
            return _NO_QUORUM
        return None if self._stream is not None else "no connection to etcd"

    def fresh(self) -> Awaitable[None]:
        """Wait until everything that happened before this call is visible. Raises Unavailable, within 5 s."""
        if self._barrier is None:
            self._barrier = self._tasks.track(self._run_barrier(), "look how far etcd is")
            self._barrier.add_done_callback(_retrieve_exception)
        return asyncio.shield(self._barrier)

    def head(self, bucket: str, name: str) -> Entry | None:
        """The visible version: etcd, not memory, decides which version a write is stacked on."""
        return self.get(bucket, name)

    @property
    def shared(self) -> bool:
        """True: other servers may write, too."""
        return True

    def pending(self) -> Iterable[Event]:
        """Empty: writes in flight are unknown."""
        return ()

    def settled(self, revision: int = 0) -> None:
        """None: `head` equals the visible state, and etcd's refusals are reported after the watch delivered their
        cause.
        """
        return

    def create(self, bucket: str, name: str, value: bytes, *, guards: Sequence[str] = ()) -> Future[Entry]:
        """Add a key. Raises Exists, Overtaken, Unavailable, from the future."""
        intent = put(self._records, bucket, name, value, 0, self._seen(guards))
        return self._submit("create", intent.behind(self._records.fence, self._fence))

    def update(
        self, bucket: str, name: str, value: bytes, expected: int, *, guards: Sequence[str] = ()
    ) -> Future[Entry]:
        """Replace the version `expected`. Raises Missing, Conflict, Overtaken, Unavailable, from the future."""
        return self._submit("update", put(self._records, bucket, name, value, expected, self._seen(guards)))

    def delete(self, bucket: str, name: str, expected: int, value: bytes | None = None) -> Future[Entry]:
        """Remove the version `expected`. Raises Missing, Conflict, Unavailable, from the future."""
        token = self._randomness.uuid().encode()
        return self._submit("delete", remove(self._records, bucket, name, expected, value, token))

    async def history(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Read from memory as far as it reaches, else by a second watch from that revision."""
        return await self._joined_history(bucket, revision, prefix, self._read)

    async def compact(self, revision: int) -> None:
        """Drop history up to and including `revision`, here and in etcd, for all servers."""
        if revision > self.revision:
            raise FutureRevision(self.revision)
        mod_revision = self._records.mod_revision(revision)
        if mod_revision > 0:
            await self._client.compact(mod_revision)
        self.forget(revision)

    async def raise_floor(self, revision: int) -> None:
        """Write the offset, which the watch delivers to every server that shares this etcd."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                floor = await write_offset(self._client, self._records, revision)
                await self._reach(max(floor, revision))
        except TimeoutError:
            raise Unavailable(_NO_QUORUM) from None

    async def raise_format(self) -> tuple[int, int]:
        """Raise the format by a compare-and-put transaction, so that it happens once."""
        return await raise_format(self._client, self._records.format_key), FORMAT

    async def mark_filling(self, mark: FillMark) -> None:
        """Record the progress of a copy. Raises Unavailable."""
        await write_mark(self._client, self._records.fill_key, mark)
        self.mark = mark

    # Writing.

    def _seen(self, guards: Sequence[str]) -> Mapping[bytes, int]:
        return {key: self._guards.get(key, 0) for key in self._records.guard_keys(guards)} if guards else NO_GUARDS

    def _submit(self, operation: str, intent: Intent) -> Future[Entry]:
        if self._closing:
            raise Unavailable("the store is shutting down")
        return self._writes.track(self._write(operation, intent), operation)

    async def _write(self, operation: str, intent: Intent) -> Entry:
        accepted = self._clock.monotonic()
        intents = self._intents.setdefault(intent.key, [])
        intents.append(intent)
        try:
            async with asyncio.timeout(_TIMEOUT), self._slots:
                landed = await self._write_until_answered(intent)
            self._answers = True
            return landed
        except TimeoutError:
            self._answers = False
            raise Unavailable(f"{_NO_QUORUM}; the outcome of the write is unknown") from None
        finally:
            intents.remove(intent)
            if not intents:
                self._intents.pop(intent.key, None)
            if self._observer is not None:
                self._observer(operation, self._clock.monotonic() - accepted)

    async def _write_until_answered(self, intent: Intent) -> Entry:
        lost, timeout = False, FIRST_ATTEMPT_TIMEOUT
        while True:
            try:
                response = await self._client.txn(intent.request, timeout)
            except Lost:
                # The write may have happened, or may still be in flight and land after the check below. Retrying is
                # safe: the retry succeeds only if the first copy has not landed, and if it fails for that reason, the
                # watch shows the first as ours. A create cannot land after the check: the fence has moved.
                lost, timeout = True, min(timeout * 2, MAX_ATTEMPT_TIMEOUT)
                await self._move_fence(intent)
                await self.fresh()
                if intent.landed is not None:
                    return intent.landed
                self._catch_up_with_fence(intent)
                continue
            if response.succeeded:
                await self._reach(self._records.revision(response.header.revision))
                if intent.landed is None:  # the state was loaded again meanwhile
                    raise Unavailable("written, but etcd forgot it before it was seen")
                return intent.landed
            if lost:
                await self.fresh()
                if intent.landed is not None:
                    return intent.landed
            if moved := intent.overtaken_by_fence(response):
                await self._reach(self._records.revision(moved))
                self._catch_up_with_fence(intent)
                continue
            error, visible_from = intent.refusal(response, self._records)
            await (self._reach(visible_from) if visible_from else self.fresh())
            raise error

    @property
    def _fence(self) -> int:
        return self._guards.get(self._records.fence, 0)

    def _catch_up_with_fence(self, intent: Intent) -> None:
        if intent.fence is not None:
            intent.behind(self._records.fence, self._fence)

    async def _move_fence(self, intent: Intent) -> None:
        """Prevent copies of a lost create from landing later. One move covers all creates lost before it."""
        async with self._fence_turn:
            if intent.fence is None or intent.fence != self._fence:
                return
            put = pb.TxnRequest(success=[pb.RequestOp(request_put=pb.PutRequest(key=self._records.fence))])
            # Idempotent enough to retry until a member responds: a second move only overtakes a few more creates.
            response = await self._client.persistent_txn(put)
            await self._reach(self._records.revision(response.header.revision))

    # Watching.

    async def _load(self) -> None:
        objects: dict[str, dict[str, Entry]] = {}
        guards: dict[bytes, int] = {}
        revision = 0
        await open_first(self._client, self._records)
        async for page in pages(self._client, self._records):
            self._records.take_offset(page.kvs)  # `!` sorts before every object, so none is read without it
            if not revision:
                check_format(page.kvs, self._records.format_key)
            revision = revision or self._records.revision(page.header.revision)
            self.mark = next((read_mark(kv.value) for kv in page.kvs if kv.key == self._records.fill_key), self.mark)
            for bucket, entry in self._records.objects(page.kvs):
                objects.setdefault(bucket, {})[entry.name] = entry
            guards.update(self._records.guards_among(page.kvs))
            self._newest = max([self._newest, *(self._records.revision(kv.mod_revision) for kv in page.kvs)])
        self.load(objects, revision)
        self._guards = guards  # last: a guard newer than the visible state would let any write pass

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_one_stream()
            except Compacted:
                _log.warning("history was compacted before it was delivered, loading again", revision=self.revision)
                await self._load_again()
            except Lost as error:
                _log.warning("watch lost", revision=self.revision, error=str(error))
            except Exception as error:  # a bug or a wrong key must not stop the watch for good
                end_if_out_of_memory(error)
                _log.error("watch failed", revision=self.revision, error=repr(error))
            await self._clock.sleep(_RETRY_DELAY)

    async def _follow_one_stream(self) -> None:
        self._trusts_progress = await self._check_version()
        async with self._client.watch(changes_after(self._records, self.revision, prev_kv=False)) as stream:
            self._stream = stream
            try:
                async for batch in stream.batches():
                    self._deliver(batch)
            finally:
                self._stream = None

    def _deliver(self, batch: Sequence[pb.WatchResponse]) -> None:
        """Apply all responses of one loop iteration at once."""
        reached, progress = self._records.mod_revision(self.revision), 0
        events: list[pb.Event] = []
        for response in batch:
            # A watch that reconnects begins at the revision it had reached, so that one is delivered again.
            new = [event for event in response.events if event.kv.mod_revision > reached]
            if new:
                events += new
                reached = new[-1].kv.mod_revision
            elif not response.events and not response.created:
                progress = response.header.revision
        if any(event.kv.key == self._records.offset_key for event in events):
            raise Compacted(self.revision)  # later revisions have a different offset
        if events:
            self._show(events)
        if self._trusts_progress and progress:
            self.revision = max(self.revision, self._records.revision(progress))
        self._wake()

    def _show(self, events: Sequence[pb.Event]) -> None:
        self._guards.update(self._records.guards_among(event.kv for event in events))
        changes = self._records.changes(events, self.get)
        for event, mark in changes:
            # Before the change is visible: a writer waiting below for this revision must find its intent landed.
            for intent in self._intents.get(self._records.key(event.bucket, event.entry.name), ()):
                intent.saw(event, mark)
        if changes:
            self.publish([event for event, _ in changes])
        self._newest = self.revision = self._records.revision(events[-1].kv.mod_revision)

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.revision:
            waiter = heapq.heappop(self._waiting)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def _load_again(self) -> None:
        with suppress(Unavailable, Compacted):  # the caller retries
            await self._load()
            for bucket in self._buckets.values():
                self._notify(tuple(bucket.subscribers.values()), ())
            self._wake()

    async def _check_version(self) -> bool:
        """True if this member's progress reports can be trusted."""
        version = (await self._client.status()).version
        good = _reports_true_progress(version)
        if not good and not self._warned:
            self._warned = True
            _log.warning("etcd may report progress it has not made, consistent reads cost more", version=version)
        return good

    # Catching up.

    async def _run_barrier(self) -> None:
        # The timeout counts from the first caller, including the wait for the lock: callers that join wait no longer.
        this = asyncio.current_task()
        try:
            async with asyncio.timeout(_TIMEOUT):
                async with self._barrier_turn:
                    self._barrier = None  # later callers need the next barrier
                    target, current = await self._newest_revision()
                await self._reach(target, ask=self._trusts_progress)
                # The store has no change between the two: a revision reported by a different server is not ahead of
                # this one.
                self.revision = max(self.revision, current)
            self._answers = True
        except TimeoutError:
            self._answers = False
            raise Unavailable(_NO_QUORUM) from None
        finally:
            if self._barrier is this:  # it never got the lock
                self._barrier = None

    async def _newest_revision(self) -> tuple[int, int]:
        """Return the revision that the watch must deliver, and etcd's own."""
        if self._trusts_progress:
            request = pb.RangeRequest(key=self._records.last_delete, keys_only=True)
            current = self._records.revision((await self._client.range(request)).header.revision)
            return current, current
        answer = await self._client.range(newest(self._records))
        current = self._records.revision(answer.header.revision)
        return max((self._records.revision(kv.mod_revision) for kv in answer.kvs), default=0), current

    async def _reach(self, revision: int, *, ask: bool = False) -> None:
        """Wait until `revision` is visible; `ask` when it may belong to no key below the prefix. The caller sets the
        timeout.
        """
        if self.revision >= revision:
            return
        # A caller that gives up leaves this in the heap, cancelled or not; `_wake` removes it when its revision comes.
        reached: Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._ties), reached))
        while ask and not reached.done():
            self._ask_progress()
            await asyncio.wait((reached,), timeout=_PROGRESS_INTERVAL)
        await reached

    def _ask_progress(self) -> None:
        if self._stream is not None:  # a broken one ignores it, and `_follow` replaces it
            self._stream.ask_progress()

    async def _read(self, bucket: str, after: int, until: int, prefix: str) -> list[Event]:
        """Read changes from etcd's own history."""
        if after < self._records.floor:
            raise Compacted(self._records.floor)
        if after >= self._newest:
            return []
        last, start = self._records.mod_revision(self._newest), self._records.mod_revision(after)
        found: list[pb.Event] = []
        async with self._client.watch(changes_after(self._records, after, prev_kv=True)) as stream:
            async for batch in stream.batches():
                found += (event for each in batch for event in each.events if event.kv.mod_revision > start)
                if found and found[-1].kv.mod_revision >= last:
                    break
        changes = self._records.past_changes(found)
        wanted = (event for event, _ in changes if event.bucket == bucket and event.entry.revision <= until)
        return [event for event in wanted if event.entry.name.startswith(prefix)]

    # Compaction.

    async def _compact_for_ever(self) -> None:
        compaction = Compaction(self._client, self._records.compaction)
        while True:
            try:
                await compaction.round()
            except Unavailable as error:
                _log.warning("compaction failed", error=str(error))
            await self._clock.sleep(self._settings.compact_seconds)


def _retrieve_exception(barrier: Future[None]) -> None:
    if not barrier.cancelled():
        barrier.exception()  # retrieved, or asyncio logs it; every waiter got it, and there may be none left


def _reports_true_progress(version: str) -> bool:
    """Progress notifications could overtake events before 3.4.31 and 3.5.13."""
    parts = tuple(int(part) for part in version.split("-")[0].split(".")[:3] if part.isdecimal())
    return parts >= (3, 5, 13) or (3, 4, 31) <= parts < (3, 5)
