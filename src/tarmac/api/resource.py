"""The description of one served resource, in one place.

Discovery, OpenAPI, storage, printing and authorization read a `Resource`. Behaviour that differs from kind to kind
(defaults, validation, the scope of a status write) is a `Strategy`; the generic server code never branches on a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tarmac.api.schema import JsonObject, Schema
from tarmac.base.fielderrors import FieldErrors


class Age(NamedTuple):
    """A cell with the time since an event: the only cell that changes while its object does not."""

    since: str  # RFC 3339
    text: str = "%s"  # format of the cell


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column. `value` computes the cell from the object alone, so it stays valid for that version."""

    name: str
    value: Callable[[JsonObject], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0  # 0 always shown, 1 with -o wide
    description: str = ""
    # path of the value, when a plain path is enough: also used for CRD columns
    json_path: str | None = None


@dataclass(frozen=True, slots=True)
class Subresource:
    """`pods/log`, `workloads/scale`, … as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None  # group and version of the kind when they differ from the parent's
    version: str | None = None
    answer: Callable[[], Schema] | None = None  # schema of the response, when only Tarmac has its type


class Strategy:
    """Per-kind rules. The defaults are those of a kind with no rules at all; subclasses override as needed.

    Objects are decoded JSON and may be changed in place where the docstring says so.
    """

    allow_create_on_update: bool = False  # PUT to a name that does not exist creates it (Lease, Event, Node, …)
    has_status: bool = False  # `status` is a subresource: main writes keep the old status, and the reverse
    generation: bool = True  # bump metadata.generation when the spec changes
    # of Kubernetes' own kinds: a change in these fields is a new generation
    generation_fields: tuple[str, ...] = ("spec",)
    allow_unconditional_update: bool = True  # PUT without a resourceVersion overwrites (CRD-like kinds always refuse)
    deprecation: str = ""  # warning for every request for this kind, regardless of the verb
    orphans_dependents: bool = False  # a delete without a propagation policy keeps the dependents (Job)
    orphan_warning: str = ""  # warning for such a delete
    returns_deleted: bool = False  # DELETE responds with the last state of the object instead of a Status

    def normalise(self, obj: JsonObject) -> None:
        """Rewrite accepted shorthands into the stored form, in place. Runs before pruning and type checks."""

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults, in place. Must be idempotent."""

    def lacks_extension_fields(self, new: JsonObject) -> bool:
        """Return True if the client that sent a replacement does not know our own fields of the object."""
        return False

    def prepare_for_create(self, obj: JsonObject) -> None:
        """Drop or set fields that a client may not choose on create, in place."""

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        """Carry over from `old` fields that an update may not change silently, in place on `new`."""

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        """Validate statically on create. Reports every cause."""

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Validate statically on update, including immutability. Defaults to `validate`."""
        self.validate(new, errors)

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        """Carry over everything but status (and managed metadata) from `old`, in place on `new`."""
        metadata = dict(old["metadata"])
        if "managedFields" in new["metadata"]:
            metadata["managedFields"] = new["metadata"]["managedFields"]
        metadata["resourceVersion"] = new["metadata"].get("resourceVersion", metadata.get("resourceVersion"))
        status = new.get("status")
        new.clear()
        new.update({key: value for key, value in old.items() if key != "status"})
        new["metadata"] = metadata
        if status is not None:
            new["status"] = status

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Validate a write to the status subresource."""

    def grace_period(self, obj: JsonObject, requested: int | None) -> int | None:
        """Return the seconds until removal, for kinds whose removal another component confirms; None: at once."""
        return None

    def is_held(self, obj: JsonObject) -> bool:
        """Return True if more than metadata.finalizers holds a deleted object (a namespace's spec.finalizers)."""
        return False

    def mark_deleted(self, obj: JsonObject) -> None:
        """Record in a held object, in place, that its deletion has begun."""

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return texts for Warning headers: accepted but deprecated, ignored or risky input."""
        return []

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        """Return conditions of a table row besides the cells, such as completion."""
        return []

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        """Return values of field selectors beyond metadata.name and metadata.namespace. All keys must be present."""
        return {}


@dataclass(frozen=True)
class Resource:
    """One served resource of one group and version."""

    group: str  # "" is the core group
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    load_schema: Callable[[], Schema]
    strategy: Strategy = field(default_factory=Strategy)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[Column, ...] = ()
    # Kubernetes' own kind: strategic merge patch, protobuf bodies, Go-like decoding errors. Tarmac's: as CRDs (415,
    # 422).
    native: bool = False
    # keys of Strategy.selectable_fields, for "field label not supported" errors
    selectable: tuple[str, ...] = ()
    # validates metadata.name; returns messages
    validate_name: Callable[[str], list[str]] | None = None
    # another resource ("core/events") that stores the objects of this one, which is a view
    storage: str | None = None
    # False for reviews and other kinds that are answered, never stored
    stored: bool = True
    # scale subresource: dotted paths (spec replicas, status replicas, label selector)
    scale: tuple[str, str, str | None] | None = None
    # scale of kinds without a fixed path: returns the path of an object's replicas, or raises BadRequest
    scaled_at: Callable[[JsonObject], str] | None = None

    @cached_property
    def schema(self) -> Schema:
        """The full structural schema, loaded on first use."""
        return self.load_schema()

    @cached_property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def bucket(self) -> str:
        """The bucket in the store: `core/pods`, `compute.datumapis.com/workloads`."""
        return self.storage or f"{self.group or 'core'}/{self.plural}"

    @property
    def list_kind(self) -> str:
        """The kind of a list of this resource."""
        return f"{self.kind}List"
