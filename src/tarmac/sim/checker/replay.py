"""Replays a history into decoded state, and applies rules to every change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.schema import JsonObject
from tarmac.sim.history import Moment

PODS = "core/pods"
NODES = "core/nodes"
QUOTAS = "core/resourcequotas"
LEASES = "coordination.k8s.io/leases"
WORKLOADS = f"{COMPUTE}/workloads"
DEPLOYMENTS = f"{COMPUTE}/workloaddeployments"
INSTANCES = f"{COMPUTE}/instances"

_decode = msgspec.json.Decoder().decode


class RuleViolation(NamedTuple):
    """A violation of a rule."""

    time: float
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.time:10.3f}  {self.rule}: {self.message}"


class ObjectChange(NamedTuple):
    """One object before and after a change."""

    time: float
    bucket: str
    key: str
    old: JsonObject | None
    new: JsonObject | None


class Mirror:
    """All objects."""

    def __init__(self) -> None:
        self._buckets: dict[str, dict[str, JsonObject]] = {}

    def bucket(self, name: str) -> dict[str, JsonObject]:
        """Return the objects of one resource, by key."""
        return self._buckets.setdefault(name, {})

    def buckets(self) -> Iterator[tuple[str, dict[str, JsonObject]]]:
        """Return all resources with their objects."""
        return iter(self._buckets.items())

    def apply(self, moment: Moment) -> ObjectChange:
        """Apply one change."""
        event = moment.event
        objects, key = self.bucket(event.bucket), event.entry.name
        old = objects.get(key)
        if event.type == "DELETED":
            objects.pop(key, None)
            return ObjectChange(moment.time, event.bucket, key, old, None)
        new = objects[key] = _decode(event.entry.raw)
        return ObjectChange(moment.time, event.bucket, key, old, new)


class CheckerRule(Protocol):
    """A rule that must hold at every moment."""

    name: str

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Yield the violations after this change."""
        ...


class Checker:
    """Applies rules to a history as it happens: an observer of a `HistoryStore`."""

    def __init__(self, rules: Sequence[CheckerRule]) -> None:
        self.mirror = Mirror()
        self.violations: list[RuleViolation] = []
        self.changes = 0
        self._rules = rules

    def __call__(self, moment: Moment) -> None:
        self.changes += 1
        change = self.mirror.apply(moment)
        for rule in self._rules:
            for message in rule.look(self.mirror, change):
                self.violations.append(RuleViolation(moment.time, rule.name, message))
