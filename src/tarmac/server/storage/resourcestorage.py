"""Shared state of the verbs: the server's services, one `ResourceStorage` per resource, and one `WriteCall` per write.

A `ResourceStorage` binds a resource to the services and holds data computed once per resource; nothing in it depends on
a request. Verbs are functions of a `ResourceStorage` and a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from tarmac.api.catalog import Catalog
from tarmac.api.decode.extent import MAX_STORED_VALUES, check_extent
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, TooLarge, TooManyRequests, conflict, invalid, not_found
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.cooperative import CooperativeRunner
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request, Response
from tarmac.server.admission.chain import AdmissionChain, Attributes, Operation
from tarmac.server.encoding import decode_json, encode_object, tail_of
from tarmac.server.printing.answers import object_answer
from tarmac.server.printing.metadata import cut_metadata, metadata_end
from tarmac.server.printing.negotiation import PLAIN, shape_of
from tarmac.server.printing.table import TablePrinter
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.users import User
from tarmac.server.storage.derived import derived
from tarmac.server.storage.eventviews import View
from tarmac.server.storage.options import WriteOptions
from tarmac.server.storage.projections import Projection
from tarmac.server.storage.selectors import EntrySelection, Index
from tarmac.store.interface import Entry, Overtaken, Reads, Store

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
MAX_STORED = 1_500_000  # bytes: the request limit of an etcd with default settings
_NOT_SPEC = frozenset({"metadata", "status", "kind", "apiVersion"})

_MAX_ATTEMPTS = 32  # each failed attempt means that a write of another server succeeded


# Serializes the writes under one guard.
#
# The store accepts a guarded write only if its server had seen every earlier one. Concurrent writes of one server would
# constantly invalidate each other; they queue here instead, and each reads the state when its turn comes. A write
# overtaken by one of another server is retried from the start.


class GuardLocks:
    """One lock per guard."""

    def __init__(self) -> None:
        # A lock exists only while a write holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def write(self, guards: Sequence[str], attempt: Callable[[], Awaitable[Entry]]) -> Entry:
        """Run `attempt` while holding the locks of all guards, retrying while other servers overtake it.

        Raises TooManyRequests after 32 lost attempts.
        """
        # A cancelled write leaves here and frees its locks, although the store may still accept it. The next holder
        # reads `head`, which includes accepted writes.
        async with AsyncExitStack() as stack:
            for guard in sorted(guards):  # one global order of locking, or two writes could deadlock
                await stack.enter_async_context(self._locks.setdefault(guard, asyncio.Lock()))
            for _ in range(_MAX_ATTEMPTS):
                try:
                    # Each attempt reads the state anew; one that kept values of the last attempt would be overtaken for
                    # ever.
                    return await attempt()
                except Overtaken:
                    continue
        text = "other servers are writing under the same quota or addresses, please try again"  # nothing was written
        raise TooManyRequests(text, details={"retryAfterSeconds": 1}, headers=[("Retry-After", "1")])


@dataclass(slots=True)
class StorageServices:
    """Dependencies shared by all resources."""

    store: Store
    reader: Reader
    catalog: Catalog
    admission: AdmissionChain
    clock: Clock
    randomness: Randomness
    guard_locks: GuardLocks = field(default_factory=GuardLocks)
    runner: CooperativeRunner = field(init=False)

    def __post_init__(self) -> None:
        self.runner = CooperativeRunner(self.clock)

    def now(self) -> str:
        """Return the current time in the format of object timestamps."""
        return rfc3339(self.clock.now())


class ResourceStorage:
    """The storage of one resource. Objects of a view are handled in the shown form and converted at the store.

    Reads and watches use `source`: the store, or a projection of another resource in it.
    """

    __slots__ = (
        "_kept",
        "_projection",
        "bucket",
        "index",
        "printer",
        "resource",
        "services",
        "source",
        "store",
        "strategy",
        "tail",
        "view",
    )

    def __init__(
        self,
        resource: Resource,
        services: StorageServices,
        kept: Resource,
        view: View | None = None,
        projection: Projection | None = None,
    ) -> None:
        self.resource = resource
        self.services = services
        self.store = services.store
        self.source: Reads = projection or services.store
        self._projection = projection
        self.strategy = resource.strategy
        self.bucket = resource.bucket
        self.view = view
        self._kept = kept  # the resource that defines the stored form: `resource` itself unless there is a view
        self.tail = tail_of(resource)
        self.index = Index(kept)
        self.printer = TablePrinter(kept)

    def key(self, namespace: str, name: str) -> str:
        """Return the store's key of an object."""
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def raw(self, entry: Entry) -> bytes:
        """Return the encoded object in the shown form."""
        return entry.raw if self.view is None else encode_object(self.load(entry), self.resource, keep_version=True)

    def metadata(self, entry: Entry) -> bytes:
        """Return the metadata as a PartialObjectMetadata. It is the same in every view."""
        known = derived(entry)
        if not known.metadata_end:
            known.metadata_end = metadata_end(entry.raw)
        return cut_metadata(entry.raw, known.metadata_end)

    def row(self, entry: Entry, now: float, include: str) -> bytes:
        """Return the object as a table row, with the part of the object that `include` asks for."""
        known = derived(entry)
        if known.row is None:
            known.row = self.printer.work_out(entry.raw)
        shown = self.metadata(entry) if include == "Metadata" else self.raw(entry) if include == "Object" else b"null"
        return known.row.at(now, shown)

    def load(self, entry: Entry) -> JsonObject:
        """Return a fresh decoded copy in the shown form, resource version included."""
        obj = decode_json(entry.raw)
        return obj if self.view is None else self.view.shown(obj)

    def encode(self, obj: JsonObject) -> bytes:
        """Return the value to store for an object in the shown form."""
        return encode_object(obj if self.view is None else self.view.stored(obj), self._kept)

    def encode_checked(self, obj: JsonObject, before: int = 0) -> bytes:
        """Encode an object, and reject it if it is too large for a store. Raises TooLarge.

        An oversized object is accepted if it does not grow: `before` is its stored size.
        """
        value = self.encode(obj)
        if len(value) > MAX_STORED and len(value) > before:
            raise TooLarge(f"Request entity too large: the object takes {len(value)} bytes, limit is {MAX_STORED}")
        if len(value) > before:
            check_extent(value, MAX_STORED_VALUES)
        return value

    def select(self, labels: str, fields: str) -> EntrySelection:
        """Parse the selectors of a request. Raises BadRequest."""
        names = {name: name for name in self.resource.selectable} if self.view is None else self.view.selectable
        return EntrySelection(self.resource, self.index, names, labels, fields)

    def waiting(self, prefix: str, newest: bool) -> Awaitable[None] | None:
        """Return an awaitable to await before listing, or None. `newest`: the list must show the latest state."""
        if self._projection is not None:
            return self._projection.prepared(prefix, newest)
        return self.store.fresh() if newest else None

    def head(self, key: str) -> Entry | None:
        """Return the newest accepted version, the base of a read-modify-write. It may not be durable yet."""
        return self.store.head(self.bucket, key)

    def answer(self, request: Request, entry: Entry, status: int = 200, warnings: Sequence[str] = ()) -> Response:
        """Return the response with one object in the representation the client asked for."""
        shape = shape_of(request)
        if shape is PLAIN and self.view is None and not warnings:
            return Response(status, entry.raw)
        now = self.services.clock.now()
        raw = entry.raw if shape.form == "table" else self.raw(entry)
        return object_answer(raw, entry.revision, shape, self.printer, now, status, warnings)

    @property
    def counts_generations(self) -> bool:
        """True if objects carry `metadata.generation`."""
        resource = self.resource
        if not self.strategy.generation or not resource.native:
            return self.strategy.generation
        return any(field in resource.schema.fields for field in self.strategy.generation_fields)

    def has_new_generation(self, new: JsonObject, old: JsonObject) -> bool:
        """Return whether an update changes the spec; in our own kinds, any field but metadata and status."""
        if self.resource.native:
            return any(_at(new, path) != _at(old, path) for path in self.strategy.generation_fields)
        fields = (new.keys() | old.keys()) - _NOT_SPEC
        return any(new.get(field) != old.get(field) for field in fields)

    def not_found(self, name: str) -> ApiError:
        """Return the NotFound error for this name."""
        return not_found(self.resource.group, self.resource.plural, name)

    def invalid(self, name: str, errors: FieldErrors) -> ApiError:
        """Return the Invalid error with all field errors. With a view it names the stored kind."""
        return invalid(self._kept.group, self._kept.kind, name, errors)

    def conflict(self, name: str, why: str = MODIFIED) -> ApiError:
        """Return the Conflict error for a write that lost a race."""
        return conflict(self.resource.group, self.resource.plural, name, why)


def _at(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if value else None
    return value or None


class WriteCall:
    """One write in progress: request, user, options and collected warnings."""

    __slots__ = ("info", "options", "request", "storage", "user", "warnings")

    def __init__(self, storage: ResourceStorage, request: Request, options: WriteOptions) -> None:
        self.storage = storage
        self.request = request
        self.info: RequestInfo = request.info
        self.user: User = request.user
        self.options = options
        self.warnings: list[str] = []
        # The response reads this very list: retries clear it in place, a new list would not reach the client.
        request.warnings = self.warnings

    @property
    def key(self) -> str:
        """The store's key of the object in the URL."""
        return self.storage.key(self.info.namespace, self.info.name)

    def guards(self, operation: Operation) -> tuple[str, ...]:
        """Return the guards that the write needs; none for a dry run."""
        if self.options.dry_run:
            return ()
        info, storage = self.info, self.storage
        return storage.services.admission.guards(storage.resource, info.subresource, operation, info.namespace)

    def settling(self, operation: Operation) -> Sequence[Awaitable[None]]:
        """Return awaitables to await after the write and before the response, such as the update of quota usage."""
        if self.options.dry_run:
            return ()
        info, storage = self.info, self.storage
        return storage.services.admission.settling(storage.resource, info.subresource, operation, info.namespace)

    def admit(self, subresource: str, name: str, obj: JsonObject) -> None:
        """Run admission for an object that is created at a subresource and not stored: a token, a binding, an eviction.

        Must come before any side effect, so that a rejection leaves no trace.
        """
        storage, namespace = self.storage, self.info.namespace
        dry_run, admission = self.options.dry_run, storage.services.admission
        attributes = Attributes("CREATE", storage.resource, subresource, namespace, name, obj, None, self.user, dry_run)
        admission.admit(attributes)
        admission.validate(attributes)
        self.warnings += attributes.warnings

    @property
    def manager(self) -> str:
        """The field manager of this write: the option, else the program in the user agent."""
        return self.options.field_manager or program(self.request.headers.get("user-agent", ""))


def program(user_agent: str) -> str:
    """Return `kubectl` for `kubectl/v1.35.8 (linux/amd64)`, at most 128 printable bytes."""
    name = user_agent.split("/", 1)[0]
    if not name.isascii() or not name.isprintable():
        name = "".join(letter for letter in name if letter.isprintable())
    return name.encode()[:128].decode(errors="ignore")
