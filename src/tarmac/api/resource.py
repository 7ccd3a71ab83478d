"""What the server knows about one served resource, in one place.

A `Resource` is the row that discovery, OpenAPI, storage, printing and authorization read. Behaviour that differs from
kind to kind (defaults, validation, what a status write may touch) is a `Strategy`; the generic server code never asks
"which kind is this?".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tarmac.api.schema import JsonObject, Schema
from tarmac.base.fielderrors import FieldErrors


class Age(NamedTuple):
    """A cell that says how long ago something was: the one thing in a table that changes while its object does not."""

    since: str  # RFC 3339
    text: str = "%s"  # what stands around it


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column. `value` makes the cell from the object alone, so that it holds for that version for good."""

    name: str
    value: Callable[[JsonObject], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0  # 0 always shown, 1 with -o wide
    description: str = ""
    # where the value is, when a plain path is enough: also used for CRD columns
    json_path: str | None = None


@dataclass(frozen=True, slots=True)
class Subresource:
    """`pods/log`, `workloads/scale`, … as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None  # group and version of the kind when they differ from the parent's
    version: str | None = None
    answer: Callable[[], Schema] | None = None  # schema of the answer, when it is of a type that only we have


class Strategy:
    """Per-kind rules. The defaults are those of a kind with no rules at all; subclasses override what they need.

    Objects are decoded JSON and may be changed in place where the docstring says so.
    """

    allow_create_on_update: bool = False  # PUT to a name that is not there creates it (Lease, Event, Node, …)
    has_status: bool = False  # `status` is a subresource: main writes keep the old status, and the reverse
    generation: bool = True  # bump metadata.generation when the spec changes
    generation_fields: tuple[str, ...] = ("spec",)  # of Kubernetes' own kinds: what counts as a new generation
    allow_unconditional_update: bool = True  # PUT without a resourceVersion overwrites (CRD-like kinds always refuse)
    deprecation: str = ""  # told to whoever asks for this kind, whatever the verb
    returns_deleted: bool = False  # DELETE answers with the last state of the object and not with a Status

    def normalise(self, obj: JsonObject) -> None:
        """Rewrite accepted shorthands into the stored form, in place. Runs before pruning and type checks."""

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults, in place. Must be idempotent."""

    def is_of_a_stranger(self, new: JsonObject) -> bool:
        """Whether an object that replaces another comes from a client who does not know our own fields in it."""
        return False

    def prepare_for_create(self, obj: JsonObject) -> None:
        """Drop or set what a client may not choose on create, in place."""

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        """Carry over from `old` what an update may not change silently, in place on `new`."""

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        """Static validation on create. Every cause at once."""

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        """Static validation on update, immutability included. Defaults to `validate`."""
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
        """Seconds from delete to the end, for kinds whose end somebody else must confirm; None: at once."""
        return None

    def is_held(self, obj: JsonObject) -> bool:
        """Whether something beyond metadata.finalizers keeps a deleted object (a namespace's spec.finalizers)."""
        return False

    def mark_deleted(self, obj: JsonObject) -> None:
        """Note in a held object, in place, that its deletion has begun."""

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Texts for Warning headers: accepted but deprecated, ignored or risky input."""
        return []

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        """What a table row says about its object besides the cells, such as that it has completed."""
        return []

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        """Values of the field selectors beyond metadata.name and metadata.namespace. Keys must always be present."""
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
    # Kubernetes' own kind: strategic merge patch, protobuf bodies, Go-like decoding errors. Ours: as CRDs (415, 422).
    native: bool = False
    # keys of Strategy.selectable_fields, for "field label not supported" errors
    selectable: tuple[str, ...] = ()
    # validates metadata.name; returns messages
    validate_name: Callable[[str], list[str]] | None = None
    # another resource ("core/events") whose storage this one is a view of
    storage: str | None = None
    # reviews and other kinds that are answered, never stored
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
        """Where the store keeps it: `core/pods`, `compute.datumapis.com/workloads`."""
        return self.storage or f"{self.group or 'core'}/{self.plural}"

    @property
    def list_kind(self) -> str:
        """The kind of a list of these."""
        return f"{self.kind}List"
