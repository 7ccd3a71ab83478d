"""Watch: the current state or a past revision, and every later change, exactly once and in order.

Watchers of one resource with the same namespace, selectors and representation form a group. A batch of the store is
rendered once per group, framed once, and written to every member. A client that does not read is disconnected by its
stream and resumes by itself. An initial state is rendered cooperatively, from one revision. Replaying the events since
that revision and joining the group happen in one iteration of the event loop, so no event is lost or repeated.

A watcher that starts with a large initial state is `behind` until its client has read it: events queue meanwhile, so
that it is not disconnected for being slow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tarmac.api.status import ApiError, Gone, NotAcceptable
from tarmac.base.cooperative import CooperativeWork
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Chunk, Request, Stream, StreamResponse
from tarmac.server.printing.negotiation import AnswerShape, shape_of
from tarmac.server.storage.listing import find, too_large
from tarmac.server.storage.options import ListOptions, list_options, parse_revision
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.storage.selectors import EntrySelection
from tarmac.server.storage.watchevents import (
    StoreChange,
    as_chunk,
    bookmark_object,
    error_line,
    initial_state,
    titled_chunk,
)
from tarmac.server.storage.watchgroups import Hub, Watcher, WatchGroup
from tarmac.store.interface import Compacted, Event, FutureRevision

_MIN_LIFETIME, _MAX_LIFETIME = 1800.0, 3600.0
_EVERYTHING_NOW = ListOptions()


class WatchQuery(NamedTuple):
    """One watch request, resolved."""

    storage: ResourceStorage
    prefix: str
    selection: EntrySelection
    shape: AnswerShape
    options: ListOptions
    revision: int

    @property
    def starts_with_state(self) -> bool:
        """True if the current objects come first, as ADDED events."""
        if self.options.send_initial_events is not None:
            return self.options.send_initial_events
        return self.revision == 0

    @property
    def starts_now(self) -> bool:
        """True if the client wants only events from now on."""
        return self.revision == 0 and not self.starts_with_state


class InitialState(NamedTuple):
    """The initial state and the revision it shows."""

    revision: int
    chunk: Chunk | None


_NOTHING = InitialState(0, None)


def watch(storage: ResourceStorage, request: Request, hub: Hub) -> StreamResponse | Awaitable[StreamResponse]:
    """GET of a collection with `watch`."""
    query = _query(storage, request)
    store = storage.source
    if query.starts_with_state or query.starts_now:
        waiting = storage.waiting(query.prefix, newest=query.options.resource_version != "0")
        return _begin(query, hub) if waiting is None else _begin_fresh(waiting, query, hub)
    try:
        # A probe only: `_missed` reads the events again in the iteration that joins the group, so none is lost in
        # between.
        store.since(storage.bucket, query.revision, query.prefix)
    except Compacted:
        return _answer_from_log(query, hub)
    except FutureRevision:
        waiting = store.fresh()  # this server may be behind the one that issued the version
        # If the revision is still unknown after catching up, it belongs to another store: `_answer_from_log` ends the
        # watch.
        return _answer_from_log(query, hub) if waiting is None else _resume_fresh(waiting, query, hub)
    return _answer(query, hub)


def _query(storage: ResourceStorage, request: Request) -> WatchQuery:
    options = list_options(request, watch=True)
    shape = shape_of(request)
    if shape.yaml:
        raise NotAcceptable("only the following media types are accepted: application/json;stream=watch")
    try:
        revision = parse_revision(options.resource_version)
    except ValueError as error:
        raise ApiError(str(error), reason="") from None
    info = request.info
    # With the slash: a bare `dev` would deliver events of the namespace `dev-2` to a client that may not see it.
    prefix = f"{info.namespace}/" if info.namespace and storage.resource.namespaced else ""
    fields = options.field_selector
    if info.name and not fields:  # the old form of path: /api/v1/watch/namespaces/NS/pods/NAME
        fields = f"metadata.name={info.name}"
    selection = storage.select(options.label_selector, fields)
    return WatchQuery(storage, prefix, selection, shape._replace(pretty=False), options, revision)


async def _begin_fresh(waiting: Awaitable[None], query: WatchQuery, hub: Hub) -> StreamResponse:
    await waiting
    # Only now: state read before the wait could be older than a list that the client has seen.
    answer = _begin(query, hub)
    return answer if isinstance(answer, StreamResponse) else await answer


async def _resume_fresh(waiting: Awaitable[None], query: WatchQuery, hub: Hub) -> StreamResponse:
    await waiting
    return await _answer_from_log(query, hub)


def _begin(query: WatchQuery, hub: Hub) -> StreamResponse | Awaitable[StreamResponse]:
    """Start with the initial state, rendered cooperatively; events since its revision are replayed after it."""
    if query.starts_now:
        return _answer(query, hub)

    def answer(present: InitialState) -> StreamResponse:
        # Events since `present.revision` are replayed by `_missed`, however long the rendering took.
        return _answer(query._replace(revision=present.revision), hub, present=present)

    try:
        return query.storage.services.runner.run(_present(query), answer)
    except ApiError as error:
        return StreamResponse(partial(_refuse, error))


def _present(query: WatchQuery) -> CooperativeWork[InitialState]:
    storage, store = query.storage, query.storage.source
    if query.revision > store.revision:
        raise too_large(query.revision, store.revision)
    found = yield from find(storage, query.prefix, query.selection, _EVERYTHING_NOW)
    bookmark: bytes | None = None
    if query.options.send_initial_events and query.options.allow_bookmarks:
        titled = not found.entries
        bookmark = bookmark_object(storage, found.revision, query.shape, initial_end=True, definitions=titled)
    if not found.entries and bookmark is None:
        return InitialState(found.revision, None)
    return InitialState(found.revision, (yield from initial_state(storage, found.entries, query.shape, bookmark)))


async def _answer_from_log(query: WatchQuery, hub: Hub) -> StreamResponse:
    """Resume from a revision that memory no longer holds: read the durable log, then memory from its end."""
    storage = query.storage
    try:
        events = await storage.source.history(storage.bucket, query.revision, query.prefix)
    except Compacted as error:
        gone = Gone(f"too old resource version: {query.revision} ({error.oldest - 1})")
        return StreamResponse(partial(_refuse, gone))
    except FutureRevision as error:
        # The version comes from a different store: serving it would silently skip all events up to that number.
        gone = Gone(f"too large resource version: {query.revision} ({error.current})")
        return StreamResponse(partial(_refuse, gone))
    # No await between the end of `history` and this line: an event published in between would be in neither part.
    return _answer(query._replace(revision=storage.source.revision), hub, events)


def _refuse(error: ApiError, stream: Stream) -> Callable[[], None]:
    """Report the error inside the stream, as Kubernetes does for a watch that cannot start."""
    # With status 200, inside the stream: client-go's reflector lists again on an ERROR event with code 410.
    stream.write(error_line(error.encoded()))
    stream.close()
    return lambda: None


def _answer(
    query: WatchQuery, hub: Hub, events: Sequence[Event] = (), present: InitialState = _NOTHING
) -> StreamResponse:
    return StreamResponse(partial(_start, query, hub, events, present))


def _start(
    query: WatchQuery, hub: Hub, events: Sequence[Event], present: InitialState, stream: Stream
) -> Callable[[], None]:
    try:
        # Nothing is awaited from here until `hub.join`: an event in between would be lost.
        missed = _missed(query, events, titled=present.chunk is not None)
    except ApiError as error:
        return _refuse(error, stream)
    first = [chunk for chunk in (present.chunk, missed) if chunk is not None]
    group = WatchGroup(query.storage, query.prefix, query.selection, query.shape)
    options = query.options
    watcher = Watcher(
        stream,
        # The events up to now are replayed above. The hub may still have some of them pending for the other watchers.
        skip_to=max(query.revision, query.storage.source.revision),
        lifetime=_lifetime(options, query.storage.services.randomness),
        bookmarks=options.allow_bookmarks,
        titled=query.shape.form != "table" or bool(first),
    )
    # The stream is closed already: joining would leave a watcher that no end of a stream removes.
    if not all(map(watcher.begin, first)):
        return lambda: None
    return hub.join(group, watcher)


def _lifetime(options: ListOptions, randomness: Randomness) -> float:
    if options.timeout_seconds:
        return float(options.timeout_seconds)
    # The range of kube-apiserver's default --min-request-timeout. A fixed lifetime would make all clients that
    # reconnected after a restart reconnect in the same second again.
    return randomness.uniform(_MIN_LIFETIME, _MAX_LIFETIME)


def _missed(query: WatchQuery, events: Sequence[Event], *, titled: bool) -> Chunk | None:
    """Render the events since the revision at which the watch begins. Raises Gone."""
    storage, store = query.storage, query.storage.source
    if query.starts_now:
        return None
    try:
        events = [*events, *store.since(storage.bucket, query.revision, query.prefix)]
    except Compacted as error:
        raise Gone(f"too old resource version: {query.revision} ({error.oldest - 1})") from None
    return _repeated(query, events, titled)


def _repeated(query: WatchQuery, events: Sequence[Event], titled: bool) -> Chunk | None:
    """Render past events as the watchers of the group have seen them, or return None."""
    storage, shape = query.storage, query.shape
    group = WatchGroup(storage, query.prefix, query.selection, shape)
    changes = [StoreChange(storage, event) for event in events]
    seen = [(change, each) for change in changes if (each := group.sees(change))]
    if not seen:
        return None
    return as_chunk(seen, shape) if shape.form != "table" or titled else titled_chunk(seen, shape)
