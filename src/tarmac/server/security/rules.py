"""RBAC policy rules: what one rule allows, and when rules cover other rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from tarmac.server.requestinfo import RequestInfo


class Rule:
    """One PolicyRule, with sets to match by. `source` is the rule as written."""

    __slots__ = ("groups", "names", "resources", "source", "urls", "verbs")

    def __init__(self, source: dict[str, Any]) -> None:
        self.source = source
        self.verbs: frozenset[str] = frozenset(source.get("verbs") or ())
        self.groups: frozenset[str] = frozenset(source.get("apiGroups") or ())
        self.resources: frozenset[str] = frozenset(source.get("resources") or ())
        self.names: frozenset[str] = frozenset(source.get("resourceNames") or ())
        self.urls: tuple[str, ...] = tuple(source.get("nonResourceURLs") or ())

    def matches_kind(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule allows the verb on the resource, at least for the names it lists."""
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
        """Whether the rule allows the verb on a path outside the API."""
        return ("*" in self.verbs or verb in self.verbs) and any(_url_covers(url, path) for url in self.urls)

    def matches(self, info: RequestInfo) -> bool:
        """Whether the rule allows the request."""
        if not info.is_resource:
            return self.matches_url(info.verb, info.path)
        return self.matches_kind(info.verb, info.group, info.resource, info.subresource) and (
            not self.names or info.name in self.names
        )

    def covers(self, atom: Atom) -> bool:
        """Whether everything that `atom` allows is allowed by this rule."""
        if atom.url:
            return self.matches_url(atom.verb, atom.url)
        resource, _, subresource = atom.resource.partition("/")
        return self.matches_kind(atom.verb, atom.group, resource, subresource) and (
            not self.names or atom.name in self.names
        )


class Atom:
    """The smallest rule: one verb on one resource (perhaps one object) or one URL."""

    __slots__ = ("group", "name", "resource", "url", "verb")

    def __init__(self, verb: str, group: str = "", resource: str = "", name: str = "", url: str = "") -> None:
        self.verb = verb
        self.group = group
        self.resource = resource
        self.name = name
        self.url = url


def _url_covers(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def atoms(rule: Rule) -> Iterator[Atom]:
    """The rule, taken apart."""
    source = rule.source
    verbs = source.get("verbs") or ()
    kinds = product(source.get("apiGroups") or (), source.get("resources") or (), verbs)
    for group, resource, verb in kinds:
        for name in source.get("resourceNames") or ("",):
            yield Atom(verb, group, resource, name)
    for url, verb in product(rule.urls, verbs):
        yield Atom(verb, url=url)


def missing_rights(owned: Iterable[Rule], wanted: Iterable[Rule]) -> list[str]:
    """What of `wanted` no rule of `owned` covers, described as Kubernetes describes it, sorted."""
    owned = list(owned)
    missing = [atom for rule in wanted for atom in atoms(rule) if not any(own.covers(atom) for own in owned)]
    return sorted(set(_describe(missing)))


def _describe(missing: list[Atom]) -> Iterator[str]:
    verbs_of: dict[tuple[str, str, str], list[str]] = {}
    for atom in missing:
        if atom.url:
            yield f'{{NonResourceURLs:["{atom.url}"], Verbs:["{atom.verb}"]}}'
        else:
            verbs_of.setdefault((atom.group, atom.resource, atom.name), []).append(atom.verb)
    for (group, resource, name), verbs in verbs_of.items():
        names = f', ResourceNames:["{name}"]' if name else ""
        listed = " ".join(f'"{verb}"' for verb in verbs)
        yield f'{{APIGroups:["{group}"], Resources:["{resource}"]{names}, Verbs:[{listed}]}}'
