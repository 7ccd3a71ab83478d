"""Checks a decoded object against its schema: one pass, in place, at the cost of a few dict look-ups per field.

Each schema node is compiled, when data first reaches it, into a rule: a callable that checks a value and returns the
value to keep. Rules do not track paths. A finding is recorded with its container, and paths are computed afterwards,
only if there are findings (`findings`). Two sets of rules share one walk:

- Kubernetes' own kinds follow Go: null is "not given", empty values vanish unless Go would write them, fields that Go
  always writes are filled in, quantities and times become canonical, and the first wrong type stops the walk.
- Tarmac's kinds follow CRDs: values stay as written, and every wrong type is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.api.decode import scalars
from tarmac.api.decode.extent import MAX_KEYED, MAX_QUANTITIES, too_many_keyed, too_many_quantities
from tarmac.api.decode.limits import MAX_ITEMS
from tarmac.api.schema import Json, JsonObject, Schema, Type

_FEW = 50
_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)


class Mismatch(Exception):
    """A value of the wrong type. `why` replaces the usual text if the value itself cannot be parsed."""

    def __init__(self, container: Any, key: Any, value: Json, schema: Schema, why: str | None) -> None:
        super().__init__()
        self.container, self.key, self.value, self.schema, self.why = container, key, value, schema, why


class TooManyItems(Exception):
    """A list or map with more entries than its limit."""

    def __init__(self, container: Any, key: Any, count: int, most: int) -> None:
        super().__init__()
        self.container, self.key, self.count, self.most = container, key, count, most


class BodyWalk:
    """The findings of one pass: the first mismatch of a Kubernetes kind is raised, those of our kinds are collected.

    The part `known`, if given, was checked before and is skipped.
    """

    __slots__ = ("keyed", "known", "mismatches", "native", "quantities", "unknown")

    def __init__(self, native: bool, known: JsonObject | None = None) -> None:
        self.native = native
        self.known = known
        self.unknown: list[tuple[JsonObject, str]] = []
        self.mismatches: list[Mismatch] = []
        self.quantities = 0
        self.keyed = 0  # entries of maps and of lists with keys

    def mismatch(self, value: Json, container: Any, key: Any, schema: Schema, why: str | None = None) -> Json:
        """Report a value of the wrong type, and keep it for now."""
        # Never assign the exception to a variable: an exception referenced by its own frame is a reference cycle, and
        # keeps the whole request in memory until the next garbage collection.
        if self.native:
            raise Mismatch(container, key, value, schema, why)
        self.mismatches.append(Mismatch(container, key, value, schema, why))
        return value

    def count_keyed(self, entries: int) -> None:
        """Count entries with individual field ownership. Raises TooLarge."""
        self.keyed += entries
        if self.keyed > MAX_KEYED:
            raise too_many_keyed()


Rule = Callable[[Json, BodyWalk, Any, Any], Json]
"""(value, walk, container, key) -> the value to keep. Called with null only for lists and maps of it."""


def _object(schema: Schema, native: bool) -> Rule:
    """Compile an object with named fields.

    Plain scalars, by far the most frequent fields, are checked without a call.
    """
    fields, preserve = schema.fields, schema.preserve_unknown
    plain = {name: _PLAIN[field.type] for name, field in fields.items() if field.type in _PLAIN}
    nullable = frozenset(name for name, field in fields.items() if field.nullable)
    keep = schema.keep_empty if native else frozenset(fields)
    always = tuple(schema.always)
    rules: dict[str, Rule] = {}
    most = MAX_ITEMS.get(schema.name or "", {})

    def rule_of(name: str) -> Rule | None:
        if name not in fields:
            return _anything if preserve else None
        made = compile_rule(fields[name], native)
        limit = most.get(name) or _many(fields[name].max_items)
        rules[name] = made if limit is None else _limited(made, limit)
        return rules[name]

    def keeps_null(value: JsonObject, name: str, walk: BodyWalk) -> bool:
        if name in fields:
            return name in nullable
        if not preserve:
            walk.unknown.append((value, name))
        return True

    def zero(name: str, walk: BodyWalk) -> Json:
        written = schema.always[name]
        return zero_of(fields[name], native, walk) if written == {} else written

    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) is not dict:
            return walk.mismatch(value, container, key, schema)
        if value is walk.known:
            return value
        dropped: list[str] | None = None
        for name, item in value.items():
            kind = type(item)
            if kind is plain.get(name) and (kind is not int or -0x80000000 <= item <= 0x7FFFFFFF):
                if item or name in keep:
                    continue
            elif item is not None:
                check = rules.get(name) or rule_of(name)
                if check is None:
                    walk.unknown.append((value, name))
                    continue
                kept = check(item, walk, value, name)
                if kept is not item:
                    value[name] = kept
                if kept or name in keep:
                    continue
            elif keeps_null(value, name, walk):
                continue
            dropped = [*dropped, name] if dropped else [name]
        if dropped:
            for name in dropped:
                del value[name]
        for name in always:
            if name not in value:
                value[name] = zero(name, walk)
        return value

    return rule


def _many(most: int | None) -> int | None:
    """Return the limit if it exists for the sake of cost.

    Lower ones are rules of the object, reported with its other errors.
    """
    return most if most is not None and most >= _FEW else None


def _limited(rule: Rule, most: int) -> Rule:
    def limited(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if isinstance(value, dict | list) and len(value) > most:
            raise TooManyItems(container, key, len(value), most)
        return rule(value, walk, container, key)

    return limited


_PLAIN: dict[Type, type] = {Type.STRING: str, Type.BOOLEAN: bool, Type.INTEGER: int}

_compiled: dict[tuple[int, bool], tuple[Schema, Rule]] = {}


def compile_rule(schema: Schema, native: bool) -> Rule:
    """Return the rule of a node. Rules of named nodes are shared, which also allows types that refer to themselves."""
    if schema.type is not Type.OBJECT:
        return _MAKERS[schema.type](schema, native)
    key = (id(schema.fields), native)  # copies of a node that differ in merge rules share their fields
    if key not in _compiled:
        # The entry holds the schema, so that the id of its fields cannot be reused by another object.
        _compiled[key] = (schema, _object(schema, native))
    return _compiled[key][1]


def zero_of(schema: Schema, native: bool, walk: BodyWalk) -> Json:
    """Return the meaning of null inside a list or map: Go's zero value."""
    if schema.type is Type.OBJECT:
        return compile_rule(schema, native)({}, walk, None, None)
    return _ZEROS.get(schema.type)


_ZEROS: dict[Type, Json] = {
    Type.STRING: "",
    Type.INTEGER: 0,
    Type.NUMBER: 0,
    Type.BOOLEAN: False,
    Type.QUANTITY: "0",
    Type.INT_OR_STRING: 0,
    Type.BYTES: "",
}


def _list(schema: Schema, native: bool) -> Rule:
    items = schema.items
    assert items is not None
    plain = _PLAIN.get(items.type) if items.type is not Type.INTEGER else None
    item_rule = compile_rule(items, native)
    keyed = schema.list_type != "atomic"

    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) is not list:
            return walk.mismatch(value, container, key, schema)
        if keyed:
            walk.count_keyed(len(value))
        index = 0
        for item in value:
            if type(item) is not plain:
                if item is not None:
                    kept = item_rule(item, walk, value, index)
                else:
                    kept = zero_of(items, native, walk) if native else walk.mismatch(None, value, index, items)
                if kept is not item:
                    value[index] = kept
            index += 1  # noqa: SIM113 - enumerate costs more than everything else in this loop
        return value

    return rule


def _map(schema: Schema, native: bool) -> Rule:
    values = schema.items
    assert values is not None
    plain = _PLAIN.get(values.type) if values.type is not Type.INTEGER else None
    value_rule = compile_rule(values, native)

    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) is not dict:
            return walk.mismatch(value, container, key, schema)
        walk.count_keyed(len(value))
        nulls: list[str] = []
        for name, item in value.items():
            if type(item) is plain:
                continue
            if item is None:
                nulls.append(name)
                continue
            kept = value_rule(item, walk, value, name)
            if kept is not item:
                value[name] = kept
        for name in nulls:
            if native:
                value[name] = zero_of(values, native, walk)
            else:
                del value[name]
        return value

    return rule


def _exactly(kind: type) -> Callable[[Schema, bool], Rule]:
    def make(schema: Schema, native: bool) -> Rule:
        def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
            return value if type(value) is kind else walk.mismatch(value, container, key, schema)

        return rule

    return make


def _integer(schema: Schema, native: bool) -> Rule:
    low, high = _INT32 if schema.format == "int32" and native else _INT64

    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) is int and low <= value <= high:
            return value
        if not native and type(value) is float and value.is_integer() and low <= value <= high:
            return int(value)
        return walk.mismatch(value, container, key, schema)

    return rule


def _number(schema: Schema, native: bool) -> Rule:
    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        return value if type(value) in (int, float) else walk.mismatch(value, container, key, schema)

    return rule


def _int_or_string(schema: Schema, native: bool) -> Rule:
    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) is str or (type(value) is int and (not native or _INT32[0] <= value <= _INT32[1])):
            return value
        return walk.mismatch(value, container, key, schema)

    return rule


def _text(read: Callable[[str], str]) -> Callable[[Schema, bool], Rule]:
    """Compile a scalar that is text in JSON; in Kubernetes' own kinds its canonical form replaces it."""

    def make(schema: Schema, native: bool) -> Rule:
        def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
            if type(value) is not str:
                return walk.mismatch(value, container, key, schema)
            try:
                canonical = read(value)
            except ValueError as error:
                return walk.mismatch(value, container, key, schema, str(error))
            return canonical if native else value

        return rule

    return make


def _quantity(schema: Schema, native: bool) -> Rule:
    accepted = (str, int, float) if native else (str, int)

    def rule(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
        if type(value) not in accepted and not native:
            return walk.mismatch(value, container, key, schema)
        walk.quantities += 1
        if walk.quantities > MAX_QUANTITIES:
            raise too_many_quantities()
        try:
            canonical = scalars.quantity(value if type(value) in accepted else "")
        except ValueError as error:
            return walk.mismatch(value, container, key, schema, str(error))
        return canonical if native else value

    return rule


def _anything(value: Json, walk: BodyWalk, container: Any, key: Any) -> Json:
    return value


def _free(schema: Schema, native: bool) -> Rule:
    return _anything


_MAKERS: dict[Type, Callable[[Schema, bool], Rule]] = {
    Type.LIST: _list,
    Type.MAP: _map,
    Type.STRING: _exactly(str),
    Type.BOOLEAN: _exactly(bool),
    Type.INTEGER: _integer,
    Type.NUMBER: _number,
    Type.BYTES: _text(scalars.base64),
    Type.TIME: _text(scalars.time),
    Type.MICRO_TIME: _text(scalars.micro_time),
    Type.QUANTITY: _quantity,
    Type.INT_OR_STRING: _int_or_string,
    Type.ANY: _free,
}
