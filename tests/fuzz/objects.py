"""Random objects that resemble valid ones of a schema, and random damage to them.

Half-right objects get further into the server than noise does: values mostly follow the schema, and sometimes have
another JSON type, null, a huge number, an odd string, an unknown field or a missing one.
"""

from __future__ import annotations

import random
from typing import Any

from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type

ODD_STRINGS = [
    "", " ", "a", "x" * 300, "\u0000", "é☃𐍈", "../..", "-1", "1e400", "256m", "10Gi", "0x10", "{{ context }}", "a/b",
    "default", "1970-01-01T00:00:00Z", "9999-99-99", "$(X)", "*", "10.0.0.0/8", "::1", "300s", "true", "null", "a=b,c",
]  # fmt: skip
ODD_NUMBERS = [0, -1, 1, 80, 65536, 2**31, 2**63, 2**64, -(2**63), 1e308, 0.5, 1000]


class Generator:
    """Values from schemas, driven by one seeded source."""

    def __init__(self, seed: int, wrongness: float = 0.06) -> None:
        self.dice = random.Random(seed)
        self._wrongness = wrongness

    def object_of(self, resource: Resource, name: str) -> dict[str, Any]:
        """A whole object with a usable name."""
        body = self.value(resource.schema, 0)
        body = body if isinstance(body, dict) else {}
        metadata = body.get("metadata")
        body["metadata"] = metadata if isinstance(metadata, dict) and self.dice.random() < 0.2 else {}
        body["metadata"]["name"] = name
        body["apiVersion"], body["kind"] = resource.api_version, resource.kind
        return body

    def value(self, schema: Schema | None, depth: int) -> Any:
        """A value for one node, usually of the right type."""
        if schema is None or self.dice.random() < self._wrongness:
            return self.anything(depth)
        if schema.type is Type.OBJECT:
            return self._fields(schema, depth)
        if schema.type is Type.MAP:
            keys = [self._key() for _ in range(self.dice.randint(0, 2))]
            return {key: self.value(schema.items, depth + 1) for key in keys}
        if schema.type is Type.LIST:
            return [self.value(schema.items, depth + 1) for _ in range(self.dice.choice([0, 1, 1, 2]))]
        return self._scalar(schema)

    def _fields(self, schema: Schema, depth: int) -> dict[str, Any]:
        chance = 0.5 if depth < 3 else 0.25 if depth < 6 else 0.05
        names = [name for name in schema.fields if name in schema.required or self.dice.random() < chance]
        made = {name: self.value(schema.fields[name], depth + 1) for name in names}
        if self.dice.random() < self._wrongness:
            made[self._key()] = self.anything(depth)
        return made

    def _scalar(self, schema: Schema) -> Any:
        if schema.enum and self.dice.random() < 0.8:
            return self.dice.choice(schema.enum)
        if schema.type in (Type.INTEGER, Type.NUMBER):
            return self.dice.choice(ODD_NUMBERS)
        if schema.type is Type.BOOLEAN:
            return self.dice.random() < 0.5
        if schema.type is Type.INT_OR_STRING:
            return self.dice.choice([80, "http", "25%", -1])
        if schema.type is Type.QUANTITY:
            return self.dice.choice(["1", "100m", "1Gi", "1.5", "-1", "1e3", "1Ki", "abc", 3])
        if schema.type in (Type.TIME, Type.MICRO_TIME):
            return self.dice.choice(["2026-11-15T12:00:00Z", "2026-11-15T12:00:00.123456Z", "yesterday"])
        return self.dice.choice([*ODD_STRINGS, "name", "tcp", "TCP", "main", "registry.example/app:1"])

    def _key(self) -> str:
        return self.dice.choice(["a", "app", "example.org/x", "cpu", "memory", *ODD_STRINGS])

    def anything(self, depth: int) -> Any:
        """Return any JSON at all."""
        pick = self.dice.random()
        if depth > 6 or pick < 0.7:
            return self.dice.choice([None, True, False, *ODD_NUMBERS, *ODD_STRINGS])
        if pick < 0.85:
            return [self.anything(depth + 1) for _ in range(self.dice.randint(0, 3))]
        return {self._key(): self.anything(depth + 1) for _ in range(self.dice.randint(0, 3))}
