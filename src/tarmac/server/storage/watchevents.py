"""Watch events, rendered once and shared by all watchers that see the same event.

Over a connection an event is a line of JSON; for a reader in this process it is a notice with the stored bytes.

A `StoreChange` wraps one event of the store for one resource. A watcher with selectors may see a different event: an
object that begins to match is ADDED, one that stops matching is DELETED, with its last matching state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tarmac.api.decode import check_object
from tarmac.api.schema import JsonObject
from tarmac.base.cooperative import CooperativeWork
from tarmac.http.messages import Chunk, Notice
from tarmac.server.encoding import encode_json
from tarmac.server.printing.negotiation import AnswerShape, named
from tarmac.server.storage.batches import batches
from tarmac.server.storage.derived import Selected
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.storage.selectors import EntrySelection
from tarmac.store.interface import Entry, Event, splice, unsplice

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class WatcherView(NamedTuple):
    """A change as a watcher sees it."""

    type: EventType
    entry: Entry


class StoreChange:
    """One event of the store, with the data that its watchers share."""

    __slots__ = ("_after", "_before", "_lines", "_notices", "event", "seen", "storage")

    def __init__(self, storage: ResourceStorage, event: Event) -> None:
        self.storage = storage
        self.event = event
        self.seen = WatcherView(event.type, event.entry)  # as seen by a watcher without selectors
        self._before: Selected | None = None
        self._after: Selected | None = None
        self._lines: dict[tuple[EventType, AnswerShape], bytes] = {}
        self._notices: dict[EventType, Notice] = {}

    def selected(self, selection: EntrySelection) -> WatcherView | None:
        """Return the event for a watcher with selectors, or None."""
        event = self.event
        before = event.previous is not None and selection.accepts(event.previous, self._seen_before)
        after = event.type != "DELETED" and selection.accepts(event.entry, self._seen_after)
        if after:
            return WatcherView("MODIFIED" if before else "ADDED", event.entry)
        if not before or event.previous is None:
            return None
        if event.type == "DELETED":
            return WatcherView("DELETED", event.entry)
        last = event.previous
        revision = event.entry.revision
        return WatcherView("DELETED", Entry(last.name, revision, last.created, splice(unsplice(last), revision)))

    def _seen_before(self) -> Selected:
        if self._before is None:
            assert self.event.previous is not None
            self._before = self.storage.index.look(self.event.previous)
        return self._before

    def _seen_after(self) -> Selected:
        if self._after is None:
            self._after = self.storage.index.look(self.event.entry)
        return self._after

    def line(self, seen: WatcherView, shape: AnswerShape) -> bytes:
        """Return the event as a line of JSON."""
        key = (seen.type, shape)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = event_line(self.storage, seen.type, seen.entry, shape)
        return line

    def notice(self, seen: WatcherView) -> Notice:
        """Return the event as a notice for a reader in this process."""
        notice = self._notices.get(seen.type)
        if notice is None:
            notice = self._notices[seen.type] = Notice(seen.type, self.storage.raw(seen.entry))
        return notice


def as_chunk(seen: Sequence[tuple[StoreChange, WatcherView]], shape: AnswerShape) -> Chunk:
    """Render several events for all watchers that see them. Tables get no notices: no in-process reader uses them."""

    def render() -> bytes:
        return b"".join([change.line(each, shape) for change, each in seen])

    return Chunk(render, () if shape.form == "table" else [change.notice(each) for change, each in seen])


def titled_chunk(seen: Sequence[tuple[StoreChange, WatcherView]], shape: AnswerShape) -> Chunk:
    """Render events for a table watcher that has not received the column definitions: the first event carries them."""
    change, first = seen[0]
    titled = event_line(change.storage, first.type, first.entry, shape, definitions=True)
    return Chunk(titled + as_chunk(seen[1:], shape).data)


def event_line(
    storage: ResourceStorage, type: str, entry: Entry, shape: AnswerShape, *, definitions: bool = False
) -> bytes:
    """Render one event. Only the first one of a table carries the column definitions."""
    if shape.form == "table":
        row = storage.row(entry, storage.services.clock.now(), shape.include_object)
        raw = storage.printer.table(b'{"resourceVersion":"%d"}' % entry.revision, [row], definitions=definitions)
    elif shape.form == "metadata":
        raw = storage.metadata(entry)
    else:
        raw = storage.raw(entry)
    return b'{"type":"%b","object":%b}\n' % (type.encode(), named(raw, shape))


def initial_state(
    storage: ResourceStorage, entries: Sequence[Entry], shape: AnswerShape, bookmark: bytes | None
) -> CooperativeWork[Chunk]:
    """Render the current objects as ADDED events, followed by the bookmark unless it is None."""
    table = shape.form == "table"
    last = [] if bookmark is None else [_bookmark_line(bookmark)]
    lines: list[bytes] = []
    notices: list[Notice] = []
    for batch in batches(entries):
        if table:
            lines += [event_line(storage, "ADDED", entry, shape, definitions=entry is entries[0]) for entry in batch]
        else:
            notices += [Notice("ADDED", storage.raw(entry)) for entry in batch]
        yield
    if table:
        return Chunk(b"".join(lines + last))

    def render() -> bytes:
        if shape.form == "metadata":
            return b"".join([event_line(storage, "ADDED", entry, shape) for entry in entries] + last)
        return b"".join([b'{"type":"ADDED","object":%b}\n' % notice.raw for notice in notices] + last)

    return Chunk(render, notices if bookmark is None else [*notices, Notice("BOOKMARK", bookmark)])


def as_bookmark(bookmark: bytes) -> Chunk:
    """Return a bookmark as a chunk for many watchers."""
    return Chunk(_bookmark_line(bookmark))


def _bookmark_line(bookmark: bytes) -> bytes:
    return b'{"type":"BOOKMARK","object":%b}\n' % bookmark


def bookmark_object(
    storage: ResourceStorage, revision: int, shape: AnswerShape, *, initial_end: bool = False, definitions: bool = False
) -> bytes:
    """Return a bookmark: no event up to `revision` is still to come. In a table it is a row with empty cells."""
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    kind, version = storage.resource.kind, storage.resource.api_version
    if shape.form != "object":
        kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
    obj: JsonObject = {"kind": kind, "apiVersion": version, "metadata": metadata}
    if storage.resource.native and shape.form == "object":
        check_object(storage.resource, obj, "Ignore")  # adds the fields that Go writes for an empty object
    line = encode_json(obj)
    if shape.form == "table":
        printer = storage.printer
        rows = [printer.empty_row(line)]
        line = printer.table(b'{"resourceVersion":"%d"}' % revision, rows, definitions=definitions)
    return named(line, shape)


def error_line(status: bytes) -> bytes:
    """Return the ERROR event that ends a watch; `status` is an encoded Status."""
    return b'{"type":"ERROR","object":%b}\n' % status
