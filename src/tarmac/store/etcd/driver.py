"""The driver: memory fed by our own watch on etcd.

State is loaded once, page by page at one revision, and from then on changes only by what the watch delivers, our own
writes included. A write is acknowledged when the watch has delivered its revision, so whoever has the acknowledgement
also reads it here; a refusal is told when the watch has delivered what caused it.

Other servers write to the same etcd, so memory is a moment behind. `fresh` asks etcd for its revision and waits until
the watch is there; etcd is asked to report progress, for the newest revision may belong to a key that is not ours.
Versions that report progress before they made it are not believed: there `fresh` asks for the newest revision among
our own keys, which costs etcd a look at each of them, but which the watch must deliver.

The watch reconnects to another member from the revision it reached. If etcd has compacted that far meanwhile, or the
offset of revisions has changed, the state is loaded afresh and subscribers are told that they missed something (an
empty batch).
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
from tarmac.store.etcd.client import FIRST_ATTEMPT_SECONDS, MOST_ATTEMPT_SECONDS, EtcdClient, Lost, WatchStream
from tarmac.store.etcd.compaction import Compaction
from tarmac.store.etcd.fillmark import FillMark, read_mark, write_mark
from tarmac.store.etcd.format import FORMAT, check_format, raise_format
from tarmac.store.etcd.loading import open_first, pages
from tarmac.store.etcd.offset import write_offset
from tarmac.store.etcd.questions import changes_after, newest
from tarmac.store.etcd.records import Records
from tarmac.store.etcd.restoring import finish_restore
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.etcd.writing import NO_GUARDS, Intent, put, remove
from tarmac.store.interface import Compacted, Entry, Event, FutureRevision, Observer, Sealer, Unavailable
from tarmac.store.state import VisibleState

_log = log("store.etcd")

_WRITES_AT_ONCE = 256
_PATIENCE_SECONDS = 4.5  # for a read or a write: longer than an election, and nobody waits longer than 5 s for a 503
_NO_QUORUM = "etcd did not answer in time: it has no leader, or cannot be reached"
_PROGRESS_SECONDS = 0.05  # between two questions how far the watch is
_RECONNECT_SECONDS = 0.05


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
        """`filling`: to bring objects here from another store, also where that was interrupted before."""
        super().__init__()
        self._filling = filling
        self.mark: FillMark | None = None  # of such a copy, as of the last time that everything was loaded
        self._settings = settings
        self._clock: Clock = clock or SystemClock()
        self._observer = observer
        self._randomness = randomness or Randomness()
        self._client = EtcdClient(settings, self._clock)
        self._records = Records(settings.prefix, sealer)
        self._tasks = Tasks()
        self._writes = Tasks()
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._intents: dict[bytes, list[Intent]] = {}
        self._waiting: list[tuple[int, int, Future[None]]] = []  # heap: revision, tie-breaker, who waits for it
        self._ties = itertools.count()
        self._stream: WatchStream | None = None
        self._trusts_progress = False
        self._warned = False
        self._newest = 0  # the newest revision that changed a key of ours
        self._guards: dict[bytes, int] = {}  # key of guards -> revision of the last write under them that is visible
        self._fence_turn = asyncio.Lock()
        self._barrier: Future[None] | None = None
        self._barrier_turn = asyncio.Lock()
        self._closing = False
        # False after an unanswered read or write. The watch alone proves nothing: it stays open without a quorum.
        self._answers = True

    async def start(self) -> None:
        """Load everything and begin to follow. Raises Unavailable."""
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

    async def close(self) -> None:
        """Finish what was accepted, hang up."""
        self._closing = True
        await self._writes.settled()  # first: a write is acknowledged by the watch, which ends with the tasks
        await self._tasks.close()
        await self._client.close()

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """`store`: why writes are refused at the moment."""
        return {"store": self._trouble}

    def _trouble(self) -> str | None:
        if self._closing:
            return "the store is shutting down"
        if not self._answers:
            return _NO_QUORUM
        return None if self._stream is not None else "no connection to etcd"

    def fresh(self) -> Awaitable[None]:
        """Wait until everything that happened before this call is visible. Raises Unavailable, within 5 s."""
        if self._barrier is None:
            self._barrier = self._tasks.promise(self._run_barrier(), "look how far etcd is")
            self._barrier.add_done_callback(_looked_at)
        return asyncio.shield(self._barrier)

    def head(self, bucket: str, name: str) -> Entry | None:
        """The visible version: etcd, not memory, decides what a write is stacked on."""
        return self.get(bucket, name)

    @property
    def shared(self) -> bool:
        """Other servers may write, too."""
        return True

    def pending(self) -> Iterable[Event]:
        """Nobody knows."""
        return ()

    def settled(self, revision: int = 0) -> None:
        """`head` shows what is visible, and etcd's own refusals come when the watch has delivered their cause."""
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
        """From memory as far as that reaches, else by a second watch from then on."""
        return await self._joined_history(bucket, revision, prefix, self._read)

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`, here and in etcd, for everyone."""
        if revision > self.revision:
            raise FutureRevision(self.revision)
        mod_revision = self._records.mod_revision(revision)
        if mod_revision > 0:
            await self._client.compact(mod_revision)
        self.forget(revision)

    async def raise_floor(self, revision: int) -> None:
        """By the offset, which the watch tells every server that shares this etcd."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                floor = await write_offset(self._client, self._records, revision)
                await self._reach(max(floor, revision))
        except TimeoutError:
            raise Unavailable(_NO_QUORUM) from None

    async def raise_format(self) -> tuple[int, int]:
        """By a transaction, so that it is done once."""
        return await raise_format(self._client, self._records.format_key), FORMAT

    async def mark_filling(self, mark: FillMark) -> None:
        """Say how far a copy is. Raises Unavailable."""
        await write_mark(self._client, self._records.fill_key, mark)
        self.mark = mark

    # Writing.

    def _seen(self, guards: Sequence[str]) -> Mapping[bytes, int]:
        return {key: self._guards.get(key, 0) for key in self._records.guard_keys(guards)} if guards else NO_GUARDS

    def _submit(self, operation: str, intent: Intent) -> Future[Entry]:
        if self._closing:
            raise Unavailable("the store is shutting down")
        return self._writes.promise(self._write(operation, intent), operation)

    async def _write(self, operation: str, intent: Intent) -> Entry:
        accepted = self._clock.monotonic()
        intents = self._intents.setdefault(intent.key, [])
        intents.append(intent)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._slots:
                landed = await self._write_until_answered(intent)
            self._answers = True
            return landed
        except TimeoutError:
            self._answers = False
            raise Unavailable(f"{_NO_QUORUM}; nobody knows whether this was written") from None
        finally:
            intents.remove(intent)
            if not intents:
                self._intents.pop(intent.key, None)
            if self._observer is not None:
                self._observer(operation, self._clock.monotonic() - accepted)

    async def _write_until_answered(self, intent: Intent) -> Entry:
        lost, timeout = False, FIRST_ATTEMPT_SECONDS
        while True:
            try:
                response = await self._client.txn(intent.request, timeout)
            except Lost:
                # Nobody knows whether it was written, and it may still be on its way and land after the look below.
                # Trying again is safe: it holds only if the first has not landed, and if it fails for that reason,
                # the watch shows the first as ours. A create's cannot land after the look: the fence has moved.
                lost, timeout = True, min(timeout * 2, MOST_ATTEMPT_SECONDS)
                await self._move_fence(intent)
                await self.fresh()
                if intent.landed is not None:
                    return intent.landed
                self._catch_up_with_fence(intent)
                continue
            if response.succeeded:
                await self._reach(self._records.revision(response.header.revision))
                if intent.landed is None:  # the state was loaded afresh meanwhile
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
        """Have no copy of a lost create land from now on. One move does for all that were lost before it."""
        async with self._fence_turn:
            if intent.fence is None or intent.fence != self._fence:
                return
            put = pb.TxnRequest(success=[pb.RequestOp(request_put=pb.PutRequest(key=self._records.fence))])
            # Moved twice, it overtakes a little more: this may be asked again until somebody answers.
            response = await self._client.persistent_txn(put)
            await self._reach(self._records.revision(response.header.revision))

    # Following.

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
        self._guards = guards  # not before: a guard that is newer than what is visible would let anything pass

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_one_stream()
            except Compacted:
                _log.warning("history went before it was seen; loading afresh", revision=self.revision)
                await self._load_again()
            except Lost as error:
                _log.warning("watch lost", revision=self.revision, error=str(error))
            except Exception as error:  # a bug or a wrong key must not silence the store for good
                end_if_out_of_memory(error)
                _log.error("watch failed", revision=self.revision, error=repr(error))
            await self._clock.sleep(_RECONNECT_SECONDS)

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
        """Show what came in one turn of the loop, all at once."""
        reached, progress = self._records.mod_revision(self.revision), 0
        events: list[pb.Event] = []
        for response in batch:
            # A watch that reconnects begins at the revision it had reached, so that one comes again.
            new = [event for event in response.events if event.kv.mod_revision > reached]
            if new:
                events += new
                reached = new[-1].kv.mod_revision
            elif not response.events and not response.created:
                progress = response.header.revision
        if any(event.kv.key == self._records.offset_key for event in events):
            raise Compacted(self.revision)  # what follows is counted differently
        if events:
            self._show(events)
        if self._trusts_progress and progress:
            self.revision = max(self.revision, self._records.revision(progress))
        self._wake()

    def _show(self, events: Sequence[pb.Event]) -> None:
        self._guards.update(self._records.guards_among(event.kv for event in events))
        changes = self._records.changes(events, self.get)
        for event, mark in changes:
            # Before anybody can read the change: whoever waits below for this revision finds its intent landed.
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
        with suppress(Unavailable, Compacted):  # the caller comes back
            await self._load()
            for bucket in self._buckets.values():
                self._tell(tuple(bucket.subscribers.values()), ())
            self._wake()

    async def _check_version(self) -> bool:
        """Whether this member's progress reports can be believed."""
        version = (await self._client.status()).version
        good = _reports_true_progress(version)
        if not good and not self._warned:
            self._warned = True
            _log.warning("this etcd may report progress it has not made; consistent reads cost more", version=version)
        return good

    # Catching up.

    async def _run_barrier(self) -> None:
        # The time counts from the first who asked, waiting for the turn included: those who join wait no longer.
        this = asyncio.current_task()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async with self._barrier_turn:
                    self._barrier = None  # whoever comes from here on needs the next one
                    target, current = await self._newest_revision()
                await self._reach(target, ask=self._trusts_progress)
                # Nothing of ours lies between the two: a revision that another server has told is not ahead of this.
                self.revision = max(self.revision, current)
            self._answers = True
        except TimeoutError:
            self._answers = False
            raise Unavailable(_NO_QUORUM) from None
        finally:
            if self._barrier is this:  # it never had its turn
                self._barrier = None

    async def _newest_revision(self) -> tuple[int, int]:
        """The one that the watch must deliver, and etcd's own."""
        if self._trusts_progress:
            request = pb.RangeRequest(key=self._records.last_delete, keys_only=True)
            current = self._records.revision((await self._client.range(request)).header.revision)
            return current, current
        answer = await self._client.range(newest(self._records))
        current = self._records.revision(answer.header.revision)
        return max((self._records.revision(kv.mod_revision) for kv in answer.kvs), default=0), current

    async def _reach(self, revision: int, *, ask: bool = False) -> None:
        """Wait until that much is visible; `ask` when it may be no revision of ours. The caller's patience ends it."""
        if self.revision >= revision:
            return
        # Whoever gives up leaves this in the heap, cancelled or not; `_wake` takes it out when its time comes.
        reached: Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._ties), reached))
        while ask and not reached.done():
            self._ask_progress()
            await asyncio.wait((reached,), timeout=_PROGRESS_SECONDS)
        await reached

    def _ask_progress(self) -> None:
        if self._stream is not None:  # one that is broken hears nothing, and is the follower's business
            self._stream.ask_progress()

    async def _read(self, bucket: str, after: int, until: int, prefix: str) -> list[Event]:
        """Changes from etcd's own history."""
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

    # Upkeep.

    async def _compact_for_ever(self) -> None:
        compaction = Compaction(self._client, self._records.compaction)
        while True:
            try:
                await compaction.round()
            except Unavailable as error:
                _log.warning("compaction failed", error=str(error))
            await self._clock.sleep(self._settings.compact_seconds)


def _looked_at(barrier: Future[None]) -> None:
    if not barrier.cancelled():
        barrier.exception()  # those who waited for it were told; nobody may be left


def _reports_true_progress(version: str) -> bool:
    """Progress notifications could overtake events before 3.4.31 and 3.5.13."""
    parts = tuple(int(part) for part in version.split("-")[0].split(".")[:3] if part.isdecimal())
    return parts >= (3, 5, 13) or (3, 4, 31) <= parts < (3, 5)
