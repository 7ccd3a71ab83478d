"""No object of the right shape, however strange, breaks a rule's code: it is accepted or rejected without an exception.

Objects are grown from the published schema, so every field and every combination occurs sooner or later. A failure
names the seed and the kind: `pytest "tests/kubernetes/test_any_object.py::test_rules_survive_anything[Pod-3]"`.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tarmac.api.kubernetes.resources import resources
from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.encoding import encode_json
from tarmac.server.printing.table import TablePrinter

KINDS = [resource for resource in resources() if resource.stored]
SEEDS = range(6)
OBJECTS_PER_SEED = 40
_WORDS = ("", "a", "x-1", "A_b", "Always", "None", "Exists", "In", "cpu", "10.0.0.1", "fd00::1", "../x", "50%", "True")
_AMOUNTS = ("0", "1", "-1", "500m", "1Gi", "100n", "1e3")


class Grower:
    """Makes one object after the other from a schema."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def grow(self, schema: Schema, depth: int = 0) -> Any:
        """A value of the schema's type."""
        pick = self._random
        match schema.type:
            case Type.OBJECT:
                return self._object(schema, depth)
            case Type.MAP:
                return {pick.choice(_WORDS): self._item(schema, depth) for _ in range(pick.choice((0, 1, 2)))}
            case Type.LIST:
                return [self._item(schema, depth) for _ in range(pick.choice((0, 1, 2, 3)))]
            case Type.INTEGER:
                return pick.choice((-1, 0, 1, 80, 30000, 2**31))
            case Type.NUMBER:
                return pick.choice((-0.5, 0.0, 1.5))
            case Type.BOOLEAN:
                return pick.random() < 0.5
            case Type.BYTES:
                return pick.choice(("", "eA==", "e30="))
            case Type.TIME | Type.MICRO_TIME:
                return "2026-11-15T12:00:00Z"
            case Type.QUANTITY:
                return pick.choice(_AMOUNTS)
            case Type.INT_OR_STRING:
                return pick.choice((0, 80, "http", "50%"))
            case Type.STRING:
                return pick.choice((*_WORDS, *schema.enum))
            case Type.ANY:
                return {}

    def _item(self, schema: Schema, depth: int) -> Any:
        assert schema.items is not None
        return self.grow(schema.items, depth + 1)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        share = 0.8 if depth < 2 else 0.25
        chosen = [name for name in schema.fields if name in schema.required or self._random.random() < share]
        return {name: self.grow(schema.fields[name], depth + 1) for name in chosen if depth < 9}

    def named(self, resource: Resource) -> dict[str, Any]:
        """A whole object with usable metadata."""
        obj = self._object(resource.schema, 0)
        annotations = {word: word for word in self._random.sample(_WORDS, 2)}
        obj["metadata"] = {"name": "x", "namespace": "default", "annotations": annotations, "labels": {"a": "b"}}
        return obj


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("resource", KINDS, ids=[resource.kind for resource in KINDS])
def test_rules_survive_anything(resource: Resource, seed: int) -> None:
    grower, strategy = Grower(seed), resource.strategy
    old: dict[str, Any] | None = None
    for _ in range(OBJECTS_PER_SEED):
        obj = grower.named(resource)
        strategy.default(obj)
        again = copy.deepcopy(obj)
        strategy.default(again)
        assert again == obj, "defaulting is idempotent"
        if old is not None:
            _update(resource, copy.deepcopy(obj), old)
        strategy.prepare_for_create(obj)
        strategy.validate(obj, FieldErrors())
        strategy.warnings(obj, None)
        assert all(isinstance(value, str) for value in strategy.selectable_fields(obj).values())
        TablePrinter(resource).row(encode_json(obj), 1_800_000_000.0, "None")
        old = obj


def _update(resource: Resource, new: dict[str, Any], old: dict[str, Any]) -> None:
    strategy, through_status = resource.strategy, copy.deepcopy(new)
    strategy.prepare_for_update(new, old)
    strategy.validate_update(new, old, FieldErrors())
    strategy.warnings(new, old)
    if strategy.has_status:
        strategy.prepare_for_status_update(through_status, old)
        strategy.validate_status_update(through_status, old, FieldErrors())
