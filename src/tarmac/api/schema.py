"""The structural schema of a kind, as all parts of the server see it.

A `Schema` is one node of a type: an object with named fields, a map, a list or a scalar, together with the data
that Kubernetes' merge rules need (list type, map keys, patch strategy). Kubernetes' own kinds get theirs
from the tables that `make setup` generates, Tarmac's kinds from their declarations; decoding, pruning, strategic merge,
server-side apply and OpenAPI all walk the same nodes. Nodes may be shared and recursive (a JSONSchemaProps refers to
itself), so walkers must follow data, never the schema alone. Nodes are immutable once built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Json = Any
"""A decoded JSON value: dict, list, str, int, float, bool or None."""

JsonObject = dict[str, Any]


class Type(Enum):
    """The type of a node. The special scalars have their own decoding and comparison rules."""

    OBJECT = "object"  # named fields
    MAP = "map"  # free keys, values all of one schema
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    BYTES = "bytes"  # base64 in JSON
    TIME = "time"  # RFC 3339, seconds
    MICRO_TIME = "micro-time"  # RFC 3339, microseconds
    QUANTITY = "quantity"  # string or number in JSON
    INT_OR_STRING = "int-or-string"
    ANY = "any"  # free JSON: RawExtension, FieldsV1, preserved unknown fields


@dataclass(slots=True, eq=False)
class Schema:
    """One node. Unset attributes mean "no such rule"."""

    type: Type
    description: str = ""
    # OBJECT
    fields: dict[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    preserve_unknown: bool = False
    or_name: bool = False  # clients may send a plain string, the name; the object is stored
    atomic: bool = False  # x-kubernetes-map-type: atomic (OBJECT and MAP); free JSON that is owned as a whole (ANY)
    # MAP values and LIST items
    items: Schema | None = None
    # LIST
    list_type: Literal["atomic", "set", "map"] = "atomic"
    list_map_keys: tuple[str, ...] = ()
    # strategic merge (Kubernetes' own kinds only)
    patch_strategy: tuple[str, ...] = ()  # of "merge", "replace", "retainKeys"
    patch_merge_key: str | None = None
    # values
    default: Json = None
    nullable: bool = False
    enum: tuple[str, ...] = ()
    pattern: str | None = None
    format: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    # the published name, e.g. "io.k8s.api.core.v1.PodSpec", when the node is a named type
    name: str | None = None
    # Go's encoding of an OBJECT (Kubernetes' own kinds only): `always` are fields that are written even when omitted,
    # with their zero value (`status: {}`, `rules: null`); `keep_empty` are fields whose empty value is kept when given
    # (other empty values vanish)
    always: dict[str, Json] = field(default_factory=dict)
    keep_empty: frozenset[str] = frozenset()
    embedded: dict[str, str] = field(default_factory=dict)  # fields of embedded structs, and those structs' Go names
    go_type: str | None = None  # as Go's decoding errors name it: "map[string]string", "v1.PullPolicy"
