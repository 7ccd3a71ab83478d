"""The admission chain: all plugins may change the object, then all plugins may reject it.

Plugins are synchronous: all their data is in memory. A rejection is an `ApiError`, usually Forbidden, with the reason.

A plugin that compares a write with many other objects (a quota, addresses) names a guard if the store is shared with
other servers: the store then rejects the write if one of them wrote under that guard first, and the plugin runs again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Literal

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.security.users import User

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Attributes:
    """One write being admitted. `obj` is None for deletes; `old` is None for creates."""

    __slots__ = (
        "dry_run",
        "name",
        "namespace",
        "obj",
        "old",
        "operation",
        "resource",
        "subresource",
        "user",
        "verb",
        "warnings",
    )

    def __init__(
        self,
        operation: Operation,
        resource: Resource,
        subresource: str,
        namespace: str,
        name: str,
        obj: JsonObject | None,
        old: JsonObject | None,
        user: User,
        dry_run: bool = False,
    ) -> None:
        self.operation: Operation = operation
        self.resource = resource
        self.subresource = subresource
        self.namespace = namespace
        self.name = name
        self.obj = obj
        self.old = old
        self.user = user
        self.dry_run = dry_run
        self.verb = operation.lower()  # the verb of the request: a create may come as a patch
        self.warnings: list[str] = []


class AdmissionPlugin:
    """One rule. `name` identifies it in rejections and docs."""

    name: str = ""

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        """Return True if the plugin handles such writes. Called once per combination; the result is cached."""
        return True

    def guard(self, resource: Resource, namespace: str) -> str | None:
        """Return the guard for such a write, or None if the plugin examines only the object itself."""
        return None

    def settling(self, namespace: str) -> Awaitable[None] | None:
        """Return an awaitable that must finish before a visible write is acknowledged, or None."""
        return None

    def admit(self, attributes: Attributes) -> None:
        """Change `attributes.obj` in place."""

    def validate(self, attributes: Attributes) -> None:
        """Reject the write by raising an ApiError."""


class AdmissionChain:
    """Plugins in order, pre-selected per kind of write."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = tuple(plugins)
        self._selected: dict[tuple[str, str, str], tuple[AdmissionPlugin, ...]] = {}
        self._guarding: dict[
            tuple[str, str, str], list[AdmissionPlugin]
        ] = {}  # the selected plugins that may name a guard
        # the selected plugins that may delay acknowledgement
        self._settling: dict[tuple[str, str, str], list[AdmissionPlugin]] = {}

    def _select(self, resource: Resource, subresource: str, operation: Operation) -> tuple[AdmissionPlugin, ...]:
        key = (resource.bucket, subresource, operation)
        # The result is cached by kind alone, so `applies_to` must not depend on an object, a user or a setting that
        # changes.
        selected = self._selected.get(key)
        if selected is None:
            selected = self._selected[key] = tuple(
                plugin for plugin in self._plugins if plugin.applies_to(resource, subresource, operation)
            )
        return selected

    def _of(self, attributes: Attributes) -> tuple[AdmissionPlugin, ...]:
        return self._select(attributes.resource, attributes.subresource, attributes.operation)

    def guards(self, resource: Resource, subresource: str, operation: Operation, namespace: str) -> tuple[str, ...]:
        """Return the guards of such a write, for the store."""
        key = (resource.bucket, subresource, operation)
        guarding = self._guarding.get(key)
        if guarding is None:
            selected = self._select(resource, subresource, operation)
            guarding = self._guarding[key] = [
                each for each in selected if type(each).guard is not AdmissionPlugin.guard
            ]
        return tuple([guard for each in guarding if (guard := each.guard(resource, namespace)) is not None])

    def settling(
        self, resource: Resource, subresource: str, operation: Operation, namespace: str
    ) -> list[Awaitable[None]]:
        """Return the awaitables that must finish before such a write is acknowledged."""
        key = (resource.bucket, subresource, operation)
        settling = self._settling.get(key)
        if settling is None:
            selected = self._select(resource, subresource, operation)
            settling = self._settling[key] = [
                each for each in selected if type(each).settling is not AdmissionPlugin.settling
            ]
        return [waiting for each in settling if (waiting := each.settling(namespace)) is not None]

    def admit(self, attributes: Attributes) -> None:
        """Run the mutating phase."""
        for plugin in self._of(attributes):
            plugin.admit(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Run the validating phase, after defaulting and validation."""
        for plugin in self._of(attributes):
            plugin.validate(attributes)
