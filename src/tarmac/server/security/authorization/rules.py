"""RBAC policy rules and their matching."""

from __future__ import annotations

from typing import Any

from tarmac.server.requestinfo import RequestInfo


class PolicyRule:
    """One PolicyRule, with sets for matching. `source` is the rule as written."""

    __slots__ = ("groups", "names", "resources", "source", "urls", "verbs")

    def __init__(self, source: dict[str, Any]) -> None:
        self.source = source
        self.verbs: frozenset[str] = frozenset(source.get("verbs") or ())
        self.groups: frozenset[str] = frozenset(source.get("apiGroups") or ())
        self.resources: frozenset[str] = frozenset(source.get("resources") or ())
        self.names: frozenset[str] = frozenset(source.get("resourceNames") or ())
        self.urls: tuple[str, ...] = tuple(source.get("nonResourceURLs") or ())

    def matches_kind(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Return True if the rule allows the verb on the resource, at least for the names it lists."""
        return (
            ("*" in self.verbs or verb in self.verbs)
            and ("*" in self.groups or group in self.groups)
            and self._matches_resource(resource, subresource)
        )

    def _matches_resource(self, resource: str, subresource: str) -> bool:
        if "*" in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def matches_url(self, verb: str, path: str) -> bool:
        """Return True if the rule allows the verb on a path outside the API."""
        return ("*" in self.verbs or verb in self.verbs) and any(_url_covers(url, path) for url in self.urls)

    def matches(self, info: RequestInfo) -> bool:
        """Return True if the rule allows the request."""
        if not info.is_resource:
            return self.matches_url(info.verb, info.path)
        return self.matches_kind(info.verb, info.group, info.resource, info.subresource) and (
            not self.names or info.name in self.names
        )


def _url_covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
