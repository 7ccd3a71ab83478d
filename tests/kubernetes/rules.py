"""Running one kind's rules the way the server does, without a server."""

from __future__ import annotations

import copy
from typing import Any

from tarmac.api.kubernetes.strategies import strategy_for
from tarmac.base.fielderrors import FieldErrors

Object = dict[str, Any]


def complete(kind: str, obj: Object, group: str = "") -> Object:
    """The object as it would be stored: with defaults, and prepared for its creation."""
    obj = copy.deepcopy(obj)
    obj.setdefault("metadata", {"name": "x", "namespace": "default"})
    strategy = strategy_for(group, kind)
    strategy.default(obj)
    strategy.prepare_for_create(obj)
    return obj


def refused(kind: str, obj: Object, group: str = "") -> list[str]:
    """Return `field: message` of every cause for which a create is rejected."""
    errors = FieldErrors()
    strategy_for(group, kind).validate(complete(kind, obj, group), errors)
    return [str(error) for error in errors]


def refused_fields(kind: str, obj: Object, group: str = "") -> list[tuple[str, str]]:
    """Return reason and field of every cause for which a create is rejected."""
    errors = FieldErrors()
    strategy_for(group, kind).validate(complete(kind, obj, group), errors)
    return [(error.kind, error.path) for error in errors]


def updated(kind: str, old: Object, changes: Object, group: str = "") -> tuple[Object, list[str]]:
    """Merge `changes` into the spec of a stored object; return the result and the errors."""
    strategy, errors = strategy_for(group, kind), FieldErrors()
    before = complete(kind, old, group)
    new = copy.deepcopy(before)
    _merge(new, changes)
    strategy.default(new)
    strategy.prepare_for_update(new, before)
    strategy.validate_update(new, before, errors)
    return new, [str(error) for error in errors]


def _merge(target: Object, changes: Object) -> None:
    for key, value in changes.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def pod(*containers: Object, **spec: Any) -> Object:
    """A Pod; without containers, the smallest one."""
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [*containers] or [{"name": "c", "image": "nginx"}], **spec},
    }


def container(**fields: Any) -> Object:
    """A container with a name and an image."""
    return {"name": "c", "image": "nginx", **fields}
