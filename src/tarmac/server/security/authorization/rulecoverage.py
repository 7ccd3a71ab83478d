"""Tests if a set of rules covers a different set, without expanding the rules into single permissions.

A rule with a hundred verbs, groups and resources stands for a million permissions. These are never listed. A verb
(group, resource, name) matters only by the set of owned rules that match it, and most values have the same set. So each
dimension of a wanted rule falls into few classes, and one member of each is compared. The matching rules of a value are
a bit mask with one bit per owned rule; a permission is covered if some bit is set in all its dimensions.

If even the classes have too many combinations, `TooComplex` is raised, so that a request cannot block the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product

from tarmac.server.security.authorization.rules import PolicyRule

_MAX_COMPARED = 20_000  # combinations of classes, for all wanted rules together
_MAX_SHOWN = 100
_MAX_VERBS = 50  # per reported permission

Kind = tuple[str, str, str]  # group, resource, name

Classes = dict[int, list[str]]
"""Values by the bit mask of the owned rules that match them."""


class TooComplex(Exception):
    """Raised if a request needs more comparisons than allowed."""


def missing_rights(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[str]:
    """Describe the permissions of `wanted` missing from `owned`, in Kubernetes' format, sorted. Raises TooComplex."""
    wanted = list(wanted)
    comparison = _Comparison(list(owned), wanted)
    urls = islice((text for rule in wanted for text in comparison.missing_urls(rule)), _MAX_SHOWN)
    kinds = islice((found for rule in wanted for found in comparison.missing_kinds(rule)), _MAX_SHOWN)
    return sorted({*urls, *_described(kinds)})


def _described(missing: Iterable[tuple[Kind, list[str]]]) -> Iterator[str]:
    verbs_of: dict[Kind, list[str]] = {}
    for kind, verbs in missing:
        verbs_of.setdefault(kind, []).extend(verbs)
    for (group, resource, name), verbs in verbs_of.items():
        names = f', ResourceNames:["{name}"]' if name else ""
        listed = " ".join(f'"{verb}"' for verb in verbs)
        yield f'{{APIGroups:["{group}"], Resources:["{resource}"]{names}, Verbs:[{listed}]}}'


class _Comparison:
    def __init__(self, owned: list[PolicyRule], wanted: list[PolicyRule]) -> None:
        self._verbs = _Speaking([rule.verbs for rule in owned], {verb for rule in wanted for verb in rule.verbs})
        self._groups = _Speaking([rule.groups for rule in owned], {each for rule in wanted for each in rule.groups})
        resources = {form for rule in wanted for each in rule.resources for form in _forms(each)}
        self._resources = _Speaking([rule.resources for rule in owned], resources)
        self._names = _Speaking([rule.names for rule in owned], {name for rule in wanted for name in rule.names})
        self._any_name = _bits([place for place, rule in enumerate(owned) if not rule.names])
        self._urls = _Urls(owned)
        self._left = _MAX_COMPARED

    def missing_urls(self, rule: PolicyRule) -> Iterator[str]:
        """Yield the uncovered non-resource URLs of a rule."""
        verbs = _classes(rule.source.get("verbs"), self._verbs.of)
        urls = _classes(rule.urls, self._urls.of)
        self._spend(len(verbs) * len(urls))
        for on_url, paths in urls.items():
            refused = [verb for on_verb, each in verbs.items() if not on_verb & on_url for verb in each]
            for path, verb in product(paths, refused):
                yield f'{{NonResourceURLs:["{path}"], Verbs:["{verb}"]}}'

    def missing_kinds(self, rule: PolicyRule) -> Iterator[tuple[Kind, list[str]]]:
        """Yield the uncovered resources of a rule, each with its uncovered verbs."""
        verbs = _classes(rule.source.get("verbs"), self._verbs.of)
        order: dict[str, int] = {verb: place for place, verb in enumerate(rule.source.get("verbs") or ())}
        groups = _classes(rule.source.get("apiGroups"), self._groups.of)
        resources = _classes(rule.source.get("resources"), self._of_resource)
        names = _classes(rule.source.get("resourceNames") or [""], self._of_name)
        self._spend(len(verbs) * len(groups) * len(resources) * len(names))
        for chosen in product(groups.items(), resources.items(), names.items()):
            (on_group, some_groups), (on_resource, some_resources), (on_name, some_names) = chosen
            spoken = on_group & on_resource & on_name
            refused = [verb for on_verb, each in verbs.items() if not on_verb & spoken for verb in each]
            if refused:
                refused = sorted(refused, key=order.__getitem__)[:_MAX_VERBS]
                for kind in product(some_groups, some_resources, some_names):
                    yield kind, refused

    def _of_resource(self, resource: str) -> int:
        return self._resources.of(resource) | self._resources.of(_forms(resource)[-1])

    def _of_name(self, name: str) -> int:
        return self._any_name | (self._names.of(name) if name else 0)

    def _spend(self, combinations: int) -> None:
        # Before the products are built: both sides of the comparison are written by clients.
        self._left -= combinations
        if self._left < 0:
            raise TooComplex


class _Speaking:
    """The owned rules that match a value in one dimension. Rules with a star match every value."""

    def __init__(self, owned: list[frozenset[str]], asked: set[str]) -> None:
        places: dict[str, list[int]] = {}
        for place, values in enumerate(owned):
            for value in (values & asked) | (values & {"*"}):
                places.setdefault(value, []).append(place)
        self._bits = {value: _bits(found) for value, found in places.items()}
        self._star = self._bits.get("*", 0)

    def of(self, value: str) -> int:
        return self._star | self._bits.get(value, 0)


class _Urls:
    """The owned rules that match a non-resource URL. A trailing star matches any suffix."""

    def __init__(self, owned: list[PolicyRule]) -> None:
        whole: dict[str, list[int]] = {}
        starts: dict[str, list[int]] = {}
        for place, rule in enumerate(owned):
            for url in rule.urls:
                whole.setdefault(url, []).append(place)
                if url.endswith("*"):
                    starts.setdefault(url.rstrip("*"), []).append(place)
        self._whole = {url: _bits(places) for url, places in whole.items()}
        self._starts = {start: _bits(places) for start, places in starts.items()}
        self._lengths = sorted({len(start) for start in starts})

    def of(self, path: str) -> int:
        found = self._whole.get(path, 0)
        for length in self._lengths:
            if length > len(path):
                break
            found |= self._starts.get(path[:length], 0)
        return found


def _forms(resource: str) -> tuple[str, ...]:
    """Return the forms in which rules may name a resource: `pods/log` is also `*/log`."""
    _, slash, subresource = resource.partition("/")
    return (resource, f"*/{subresource}") if slash and subresource else (resource,)


def _bits(places: list[int]) -> int:
    found = bytearray(max(places, default=0) // 8 + 1)
    for place in places:
        found[place // 8] |= 1 << place % 8
    return int.from_bytes(found, "little")


def _classes(values: Iterable[str] | None, speaking: Callable[[str], int]) -> Classes:
    classes: Classes = {}
    for value in dict.fromkeys(values or ()):
        classes.setdefault(speaking(value), []).append(value)
    return classes
