"""Writes the aggregated rules into each aggregated ClusterRole.

The server evaluates an aggregated role by labels itself, so no permission depends on this controller; it serves readers
of the role. As in Kubernetes: selectors in their order, roles by name, each rule once; any other content of `rules` is
overwritten. A role that aggregates another aggregated role copies the rules written there, so a change propagates one
step at a time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher
from tarmac.client.cache import Item
from tarmac.client.targets.untyped import CLUSTER_ROLES
from tarmac.controllers.context import ControllerContext

MANAGER = "clusterrole-aggregation-controller"
_AGGREGATED = "aggregated"
_encode = msgspec.json.Encoder(order="deterministic").encode


class ClusterRoleController:
    """Reconciles by the name of the aggregated role."""

    def __init__(self, context: ControllerContext) -> None:
        self._roles = context.client.resource(CLUSTER_ROLES)
        self._known = context.informers.informer(CLUSTER_ROLES)
        self._known.add_index(_AGGREGATED, lambda item: ("",) if _selectors(item.object) else ())
        self._controller = context.controller("clusterrole", self.reconcile)
        # Any changed role, matching before or now, may concern every aggregated role.
        self._controller.watches(self._known, self._aggregated)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, name: str) -> None:
        """Write one role's rules, unless they are current."""
        role = self._known.get(name)
        if role is None or not (selectors := _selectors(role)):
            return
        rules = self._gathered(name, selectors)
        if rules != (role.get("rules") or []):
            applied = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": name}}
            await self._roles.apply({**applied, "rules": rules}, manager=MANAGER)

    def _aggregated(self, _: Item[JsonObject]) -> list[str]:
        return [item.key for item in self._known.indexed(_AGGREGATED, "")]

    def _gathered(self, name: str, selectors: list[JsonObject]) -> list[JsonObject]:
        roles = sorted((item for item in self._known.cache.items() if item.key != name), key=lambda item: item.key)
        found: dict[bytes, JsonObject] = {}
        for selector in map(LabelMatcher.from_object, selectors):
            for role in roles:
                if selector.matches(role.metadata.labels or {}):
                    found |= {_encode(rule): rule for rule in role.object.get("rules") or ()}
        return list(found.values())


def _selectors(role: JsonObject) -> list[Any]:
    return (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
