"""Watch events as bytes: one line of JSON each, made once and shared by every watcher that sees the same thing.

A `Change` wraps one event of the store for one resource. What a watcher with selectors sees may differ from what
happened: an object that begins to match appears, one that stops matching is deleted, with its last matching state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tarmac.api.decode import check_object
from tarmac.api.schema import JsonObject
from tarmac.server.printing.metadata import partial_metadata
from tarmac.server.printing.negotiation import Shape
from tarmac.server.storage.encoding import encode_json
from tarmac.server.storage.selecting import Selected, Selection
from tarmac.server.storage.served import Served
from tarmac.store.interface import Entry, Event, splice, unsplice

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change:
    """One event of the store, with everything that watchers share about it."""

    __slots__ = ("_after", "_before", "_lines", "event", "served")

    def __init__(self, served: Served, event: Event) -> None:
        self.served = served
        self.event = event
        self._before: Selected | None = None
        self._after: Selected | None = None
        self._lines: dict[tuple[EventType, Shape], bytes] = {}

    def line(self, shape: Shape) -> bytes:
        """What a watcher of everything sees."""
        return self._line(self.event.type, self.event.entry, shape)

    def selected_line(self, selection: Selection, shape: Shape) -> bytes:
        """What a watcher with selectors sees; empty when it sees nothing."""
        event = self.event
        before = event.previous is not None and selection.accepts(event.previous, self._seen_before)
        after = event.type != "DELETED" and selection.accepts(event.entry, self._seen_after)
        if after:
            return self._line("MODIFIED" if before else "ADDED", event.entry, shape)
        if not before or event.previous is None:
            return b""
        if event.type == "DELETED":
            return self._line("DELETED", event.entry, shape)
        last = event.previous
        revision = event.entry.revision
        return self._line("DELETED", Entry(last.name, revision, last.created, splice(unsplice(last), revision)), shape)

    def _seen_before(self) -> Selected:
        if self._before is None:
            assert self.event.previous is not None
            self._before = self.served.index.look(self.event.previous)
        return self._before

    def _seen_after(self) -> Selected:
        if self._after is None:
            self._seen_before() if self.event.previous is not None else None  # while the index still knows it
            self._after = self.served.index.look(self.event.entry)
        return self._after

    def _line(self, type: EventType, entry: Entry, shape: Shape) -> bytes:
        key = (type, shape)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = event_line(self.served, type, entry, shape)
        return line


def event_line(served: Served, type: str, entry: Entry, shape: Shape, *, definitions: bool = False) -> bytes:
    """One event. Only the first one of a table carries the column definitions."""
    raw = served.raw(entry)
    if shape.form == "table":
        printer = served.printer
        row = printer.row(entry.raw, served.services.clock.now(), shape.include_object)
        raw = printer.table(b'{"resourceVersion":"%d"}' % entry.revision, [row], definitions=definitions)
    elif shape.form == "metadata":
        raw = partial_metadata(raw)
    return b'{"type":"%b","object":%b}\n' % (type.encode(), raw)


def initial_lines(served: Served, entries: Iterable[Entry], shape: Shape) -> list[bytes]:
    """The present as additions."""
    if shape.form == "object" and served.view is None:
        return [b'{"type":"ADDED","object":%b}\n' % entry.raw for entry in entries]
    return [event_line(served, "ADDED", entry, shape, definitions=index == 0) for index, entry in enumerate(entries)]


def bookmark_line(
    served: Served, revision: int, shape: Shape, *, initial_end: bool = False, definitions: bool = False
) -> bytes:
    """Nothing older than `revision` is still to come. In a table it is a row without texts."""
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    kind, version = served.resource.kind, served.resource.api_version
    if shape.form != "object":
        kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
    obj: JsonObject = {"kind": kind, "apiVersion": version, "metadata": metadata}
    if served.resource.native and shape.form == "object":
        check_object(served.resource, obj, "Ignore")  # fills in what Go writes of an empty object
    line = encode_json(obj)
    if shape.form == "table":
        printer = served.printer
        rows = [printer.empty_row(line)]
        line = printer.table(b'{"resourceVersion":"%d"}' % revision, rows, definitions=definitions)
    return b'{"type":"BOOKMARK","object":%b}\n' % line


def error_line(status: bytes) -> bytes:
    """The watch cannot go on; `status` is an encoded Status."""
    return b'{"type":"ERROR","object":%b}\n' % status
