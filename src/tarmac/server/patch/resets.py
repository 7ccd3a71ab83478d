"""Fields that a write to a resource or subresource cannot change, and therefore never owns.

The main resource does not write `status`, the status subresource does not write `spec`; a few kinds have rules of their
own. Each rule is a function that removes such paths from a field set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tarmac.api.resource import Resource
from tarmac.server.patch.fieldset import SELF, FieldSet, of_paths, recursive_difference

Rule = Callable[[FieldSet], FieldSet]

_ANY = "*"


def _without(*paths: tuple[str, ...]) -> Rule:
    excluded = of_paths(*paths)
    return lambda fields: recursive_difference(fields, excluded)


def _only(*prefixes: tuple[str, ...]) -> Rule:
    return partial(_matching, prefixes)


def _matching(prefixes: tuple[tuple[str, ...], ...], fields: FieldSet) -> FieldSet:
    """Return the paths that agree with a prefix as far as both go: a container above a kept field is kept with it."""
    found: FieldSet = {}
    for element, node in fields.items():
        rests = tuple(prefix[1:] for prefix in prefixes if prefix[0] in (_ANY, element))
        if element == SELF or () in rests or (rests and not node):
            found[element] = node
        elif rests:
            below = _matching(rests, node)
            if below:
                found[element] = below
    return found


def _everything(fields: FieldSet) -> FieldSet:
    return fields


_STATUS = _without(("f:status",))
_SPEC = _without(("f:spec",))
_MAIN = ""
_CONTAINERS = tuple(
    ("f:spec", kind, _ANY, field)
    for kind in ("f:containers", "f:initContainers")
    for field in ("f:resources", "f:resizePolicy")
)

_RULES: dict[tuple[str, str], Rule] = {
    ("pods", "status"): _without(
        ("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")
    ),
    ("pods", "ephemeralcontainers"): _only(("f:spec", "f:ephemeralContainers")),
    ("pods", "resize"): _only(*_CONTAINERS),
    ("namespaces", "finalize"): _STATUS,
    ("certificatesigningrequests", _MAIN): _without(("f:spec",), ("f:status",)),
    ("certificatesigningrequests", "status"): _without(("f:spec",), ("f:status", "f:conditions")),
    ("certificatesigningrequests", "approval"): _without(("f:spec",), ("f:status", "f:certificate")),
    ("events", _MAIN): _everything,
}


def rule(resource: Resource, subresource: str) -> Rule:
    """Return the rule for writes to a resource (subresource "") or one of its subresources."""
    special = _RULES.get((resource.plural, subresource))
    if special is not None:
        return special
    if subresource == _MAIN and _has_status(resource):
        return _STATUS
    return _SPEC if subresource == "status" else _everything


def _has_status(resource: Resource) -> bool:
    return resource.strategy.has_status or any(each.name == "status" for each in resource.subresources)
