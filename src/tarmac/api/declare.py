"""Declaration of Tarmac's own kinds: once, as typed and documented classes.

A kind is a `Struct` whose fields carry their documentation and rules as `Field` in an `Annotated` type. From that one
declaration come the structural schema (which feeds decoding, apply, OpenAPI and CRDs) and typed decoding for
controllers:

    class Placement(Struct):
        \"""Where instances go, and how many.\"""

        name: Annotated[str, Field("A DNS label, unique in the workload.")]
        city_codes: Annotated[list[str], Field("IATA codes.", unique=True)] = []

The docstring of a `Struct` is published: it is the description of its type in OpenAPI and CRDs, except where the
`Field` of the referring field has a text of its own.

A field without a default is required. Objects are stored as their authors wrote them; defaults apply in typed
decoding. Only a default marked `stored`, and the `filled` value of a field that is required in the stored object,
becomes part of the schema and of that object. JSON names are the camelCase of the Python names unless `msgspec.field`
names them.
"""

from __future__ import annotations

import copy
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, NewType, TypeVar, Union

import msgspec

from tarmac.api.resource import Column, Resource, Strategy, Subresource
from tarmac.api.schema import Json, JsonObject, Schema, Type
from tarmac.base.quantity import Quantity

Time = NewType("Time", str)
"""An RFC 3339 time in whole seconds."""

IntOrString = int | str
"""A number, or a string such as a port name or a percentage."""


class Struct(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of every declared type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    key: str | None = None  # a list of objects with this field as their key
    unique: bool = False  # a list without duplicates
    atomic: bool = False  # an object or map that is applied as a whole
    or_name: bool = False  # an object that a manifest may abbreviate to its name
    stored: bool = False  # the default is stored when the field is omitted
    filled: Json = None  # a required field: this is stored when an author omits it
    minimum: int | None = None
    maximum: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Field(_Rules):
    """Schema rules of a field beyond its type. `kubectl explain` shows the text."""

    doc: str


T = TypeVar("T", bound=msgspec.Struct)


def decode(type: type[T], obj: JsonObject) -> T:
    """Decode a stored object into its declared type, ignoring unknown fields. Raises msgspec.ValidationError."""
    return msgspec.convert(obj, type, dec_hook=_decode_special)


def decoder(type: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """Return a reusable decoder of encoded objects, for callers that decode many. Otherwise as `decode`."""
    return msgspec.json.Decoder(type, dec_hook=_decode_special).decode


def encode(value: msgspec.Struct) -> JsonObject:
    """Return the JSON object of a typed value, without fields that have their default."""
    return msgspec.to_builtins(value, enc_hook=str)


def _decode_special(type: type[Any], value: Any) -> Any:
    if type is Quantity:
        return Quantity.parse(value)
    raise NotImplementedError(f"no decoding for {type}")


_SCALARS: dict[Any, Type] = {
    str: Type.STRING,
    bool: Type.BOOLEAN,
    int: Type.INTEGER,
    float: Type.NUMBER,
    Quantity: Type.QUANTITY,
    Time: Type.TIME,
    Any: Type.ANY,
}


@cache
def schema_of(struct: type[msgspec.Struct]) -> Schema:
    """Return the structural schema of a declared type. Types that refer to themselves are not supported."""
    infos = msgspec.structs.fields(struct)
    return Schema(
        Type.OBJECT,
        description=_text(struct.__doc__),
        fields={info.encode_name: _field(info) for info in infos},
        required=tuple(info.encode_name for info in infos if info.required and not _is_filled(info)),
    )


def _is_filled(info: msgspec.structs.FieldInfo) -> bool:
    rules = _rules_of(info.type)
    return rules is not None and rules.filled is not None


def _field(info: msgspec.structs.FieldInfo) -> Schema:
    schema, rules = _of_type(info.type), _rules_of(info.type)
    if rules is not None and rules.filled is not None:
        return replace(schema, default=rules.filled)
    if rules is None or not rules.stored:
        return schema
    made = info.default_factory is not msgspec.NODEFAULT
    return replace(schema, default=info.default_factory() if made else info.default)


def _of_type(annotation: Any) -> Schema:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, rules = _of_type(typing.get_args(annotation)[0]), _rules_of(annotation)
        return _with_rules(inner, rules) if rules else inner
    if origin in {Union, types.UnionType}:
        return _of_union([argument for argument in typing.get_args(annotation) if argument is not types.NoneType])
    if origin is Literal:
        return Schema(Type.STRING, enum=typing.get_args(annotation))
    if origin is list:
        return Schema(Type.LIST, items=_of_type(typing.get_args(annotation)[0]))
    if origin is dict:
        return Schema(Type.MAP, items=_of_type(typing.get_args(annotation)[1]))
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return schema_of(annotation)
    return Schema(_SCALARS[annotation], format="int32" if annotation is int else None)


def _rules_of(annotation: Any) -> Field | None:
    if typing.get_origin(annotation) is not Annotated:
        return None
    return next((extra for extra in typing.get_args(annotation)[1:] if isinstance(extra, Field)), None)


def _of_union(members: list[Any]) -> Schema:
    if set(members) == {int, str}:
        return Schema(Type.INT_OR_STRING)
    (only,) = members
    return _of_type(only)


def _with_rules(schema: Schema, rules: Field) -> Schema:
    return replace(
        schema,
        description=_text(rules.doc) or schema.description,
        list_type="map" if rules.key else "set" if rules.unique else schema.list_type,
        list_map_keys=(rules.key,) if rules.key else schema.list_map_keys,
        atomic=rules.atomic or schema.atomic,
        or_name=rules.or_name,
        format=rules.format or schema.format,
        pattern=rules.pattern,
        minimum=rules.minimum,
        maximum=rules.maximum,
        min_items=rules.min_items,
        max_items=rules.max_items,
        min_length=rules.min_length,
        max_length=rules.max_length,
    )


def _text(doc: str | None) -> str:
    return " ".join((doc or "").split())


def declare(
    struct: type[msgspec.Struct],
    api_version: str,
    plural: str,
    *,
    strategy: Strategy,
    columns: tuple[Column, ...],
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    selectable: tuple[str, ...] = (),
    categories: tuple[str, ...] = ("tarmac",),
    scale: tuple[str, str, str | None] | None = None,
    scaled_at: Callable[[JsonObject], str] | None = None,
    validate_name: Callable[[str], list[str]] | None = None,
    subresources: tuple[Subresource, ...] = (),
) -> Resource:
    """Return the served resource of a declared kind, named after its class. A field `status` adds a subresource."""
    group, version = api_version.split("/")
    kind = struct.__name__
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        load_schema=lambda: _kind_schema(struct, group, version),
        strategy=strategy,
        short_names=short_names,
        categories=categories,
        subresources=(*_subresources(struct, has_scale=bool(scale or scaled_at)), *subresources),
        columns=columns,
        selectable=selectable,
        scale=scale,
        scaled_at=scaled_at,
        validate_name=validate_name,
    )


def _subresources(struct: type[msgspec.Struct], *, has_scale: bool) -> tuple[Subresource, ...]:
    verbs = ("get", "patch", "update")
    has_status = "status" in struct.__struct_fields__
    status = (Subresource("status", struct.__name__, verbs),) if has_status else ()
    return (*status, Subresource("scale", "Scale", verbs, "autoscaling", "v1")) if has_scale else status


def _kind_schema(struct: type[msgspec.Struct], group: str, version: str) -> Schema:
    from tarmac.api.tables import load_schema  # deferred: the tables are read when a kind is first used

    schema = schema_of(struct)
    metadata = load_schema("", "v1", "ConfigMap").fields["metadata"]
    reversed_group = ".".join(reversed(group.split(".")))
    name = f"{reversed_group}.{version}.{struct.__name__}"
    return replace(schema, fields={**_TYPE_META, **schema.fields, "metadata": metadata}, name=name)


_TYPE_META = {
    "apiVersion": Schema(Type.STRING, description="Group and version of the kind."),
    "kind": Schema(Type.STRING, description="Kind of the object."),
}


def fill_defaults(value: Json, schema: Schema) -> None:
    """Store the schema's defaults for omitted fields, in place. A field is only filled where its object exists."""
    if isinstance(value, dict) and schema.type is Type.OBJECT:
        for name, field in _defaulted_fields(schema):
            if name in value:
                fill_defaults(value[name], field)
            elif field.default is not None:
                value[name] = copy.deepcopy(field.default)
    elif isinstance(value, list) and schema.items is not None and _has_defaults(schema.items):
        for item in value:
            fill_defaults(item, schema.items)


@cache
def _defaulted_fields(schema: Schema) -> tuple[tuple[str, Schema], ...]:
    """Return the fields that have a default or contain one; the walk skips all other fields."""
    return tuple((name, field) for name, field in schema.fields.items() if field.default or _has_defaults(field))


@cache
def _has_defaults(schema: Schema) -> bool:
    return bool(_defaulted_fields(schema)) or (schema.items is not None and _has_defaults(schema.items))
