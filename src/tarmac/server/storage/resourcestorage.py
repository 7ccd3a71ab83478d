"""What the verbs need: the server's services, one `ResourceStorage` for each resource, and one `Call` for each write.

A `ResourceStorage` binds a resource to the services and holds what is computed once per resource; nothing in it depends
on a request. Verbs are functions of a `ResourceStorage` and a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.catalog import Catalog
from tarmac.api.decode.extent import MOST_STORED_VALUES, check_extent
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, TooLarge, conflict, invalid, not_found
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.pieces import Pieces
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request, Response
from tarmac.server.admission.chain import Attributes, Chain, Operation
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
from tarmac.server.storage.selectors import Index, Selection
from tarmac.server.storage.serialwrites import Turns
from tarmac.store.interface import Entry, Reads, Store

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
MOST_STORED = 1_500_000  # bytes: what an etcd takes that nobody has configured
_NOT_SPEC = frozenset({"metadata", "status", "kind", "apiVersion"})


@dataclass(slots=True)
class Services:
    """What every resource shares."""

    store: Store
    reader: Reader
    catalog: Catalog
    admission: Chain
    clock: Clock
    randomness: Randomness
    turns: Turns = field(default_factory=Turns)
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = Pieces(self.clock)

    def now(self) -> str:
        """The current time as objects are stamped with it."""
        return rfc3339(self.clock.now())


class ResourceStorage:
    """One resource, ready to be served. Objects of a view are handled in the shown form and converted at the store.

    What is read and watched comes from `source`: the store, or a projection of another resource in it.
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
        services: Services,
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
        self._kept = kept  # the resource whose form is stored: `resource` itself unless there is a view
        self.tail = tail_of(resource)
        self.index = Index(kept)
        self.printer = TablePrinter(kept)

    def key(self, namespace: str, name: str) -> str:
        """The store's name for an object."""
        return f"{namespace}/{name}" if self.resource.namespaced else name

    def raw(self, entry: Entry) -> bytes:
        """The object as it is shown."""
        return entry.raw if self.view is None else encode_object(self.load(entry), self.resource, keep_version=True)

    def metadata(self, entry: Entry) -> bytes:
        """The object's metadata as an object of its own. No view changes it."""
        known = derived(entry)
        if not known.metadata_end:
            known.metadata_end = metadata_end(entry.raw)
        return cut_metadata(entry.raw, known.metadata_end)

    def row(self, entry: Entry, now: float, include: str) -> bytes:
        """The object as a row of a table, with as much of itself as `include` says."""
        known = derived(entry)
        if known.row is None:
            known.row = self.printer.work_out(entry.raw)
        shown = self.metadata(entry) if include == "Metadata" else self.raw(entry) if include == "Object" else b"null"
        return known.row.at(now, shown)

    def load(self, entry: Entry) -> JsonObject:
        """A fresh decoded copy as it is shown, resource version included."""
        obj = decode_json(entry.raw)
        return obj if self.view is None else self.view.shown(obj)

    def encode(self, obj: JsonObject) -> bytes:
        """The value to store for an object in the shown form."""
        return encode_object(obj if self.view is None else self.view.stored(obj), self._kept)

    def encode_checked(self, obj: JsonObject, before: int = 0) -> bytes:
        """The same, if it is one that every store takes, or takes no more than the `before` bytes of now."""
        value = self.encode(obj)
        if len(value) > MOST_STORED and len(value) > before:
            raise TooLarge(f"Request entity too large: the object takes {len(value)} bytes, limit is {MOST_STORED}")
        if len(value) > before:
            check_extent(value, MOST_STORED_VALUES)
        return value

    def select(self, labels: str, fields: str) -> Selection:
        """The selectors of a request. Raises BadRequest."""
        names = {name: name for name in self.resource.selectable} if self.view is None else self.view.selectable
        return Selection(self.resource, self.index, names, labels, fields)

    def waiting(self, prefix: str, newest: bool) -> Awaitable[None] | None:
        """What has to be awaited before objects are listed, if anything; `newest` when it is the very last state."""
        if self._projection is not None:
            return self._projection.prepared(prefix, newest)
        return self.store.fresh() if newest else None

    def head(self, key: str) -> Entry | None:
        """The newest accepted version: what a read-modify-write starts from."""
        return self.store.head(self.bucket, key)

    def answer(self, request: Request, entry: Entry, status: int = 200, warnings: Sequence[str] = ()) -> Response:
        """One object in the shape the client asked for."""
        shape = shape_of(request)
        if shape is PLAIN and self.view is None and not warnings:
            return Response(status, entry.raw)
        now = self.services.clock.now()
        raw = entry.raw if shape.form == "table" else self.raw(entry)
        return object_answer(raw, entry.revision, shape, self.printer, now, status, warnings)

    @property
    def counts_generations(self) -> bool:
        """Whether objects carry `metadata.generation`."""
        resource = self.resource
        if not self.strategy.generation or not resource.native:
            return self.strategy.generation
        return any(field in resource.schema.fields for field in self.strategy.generation_fields)

    def has_new_generation(self, new: JsonObject, old: JsonObject) -> bool:
        """Whether an update changes what is asked for: the spec; in our own kinds all but metadata and status."""
        if self.resource.native:
            return any(_at(new, path) != _at(old, path) for path in self.strategy.generation_fields)
        fields = (new.keys() | old.keys()) - _NOT_SPEC
        return any(new.get(field) != old.get(field) for field in fields)

    def not_found(self, name: str) -> ApiError:
        """No such object."""
        return not_found(self.resource.group, self.resource.plural, name)

    def invalid(self, name: str, errors: FieldErrors) -> ApiError:
        """An object that breaks rules; a view speaks for the kind it shows."""
        return invalid(self._kept.group, self._kept.kind, name, errors)

    def conflict(self, name: str, why: str = MODIFIED) -> ApiError:
        """A write that lost a race."""
        return conflict(self.resource.group, self.resource.plural, name, why)


def _at(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if value else None
    return value or None


class Call:
    """One write under way: who asks for what, and what to warn them of."""

    __slots__ = ("info", "options", "request", "served", "user", "warnings")

    def __init__(self, served: ResourceStorage, request: Request, options: WriteOptions) -> None:
        self.served = served
        self.request = request
        self.info: RequestInfo = request.info
        self.user: User = request.user
        self.options = options
        self.warnings: list[str] = []
        request.warnings = self.warnings

    @property
    def key(self) -> str:
        """The store's name for the object in the URL."""
        return self.served.key(self.info.namespace, self.info.name)

    def guards(self, operation: Operation) -> tuple[str, ...]:
        """What the write has to be guarded by; nothing for one that writes nothing."""
        if self.options.dry_run:
            return ()
        info, served = self.info, self.served
        return served.services.admission.guards(served.resource, info.subresource, operation, info.namespace)

    def settling(self, operation: Operation) -> Sequence[Awaitable[None]]:
        """What to await, after the write, that its acknowledgement promises beyond the object: the usage of quotas."""
        if self.options.dry_run:
            return ()
        info, served = self.info, self.served
        return served.services.admission.settling(served.resource, info.subresource, operation, info.namespace)

    def admit(self, subresource: str, name: str, obj: JsonObject) -> None:
        """Ask admission about something that is created at an object and not stored: a token, a binding, an eviction.

        Comes before anything else happens, so that a refusal leaves no trace.
        """
        served, namespace = self.served, self.info.namespace
        dry_run, admission = self.options.dry_run, served.services.admission
        attributes = Attributes("CREATE", served.resource, subresource, namespace, name, obj, None, self.user, dry_run)
        admission.admit(attributes)
        admission.validate(attributes)
        self.warnings += attributes.warnings

    @property
    def manager(self) -> str:
        """Who owns the fields this call sets: as told, else the program's name."""
        return self.options.field_manager or program(self.request.headers.get("user-agent", ""))


def program(user_agent: str) -> str:
    """`kubectl` of `kubectl/v1.35.8 (linux/amd64)`, at most 128 printable bytes."""
    name = user_agent.split("/", 1)[0]
    if not name.isascii() or not name.isprintable():
        name = "".join(letter for letter in name if letter.isprintable())
    return name.encode()[:128].decode(errors="ignore")
