"""Indexes for label selectors: a selector is compared only with objects that have a label it requires by value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

from tarmac.base.selectors import LabelMatcher
from tarmac.decide.reach.budget import Budget

T = TypeVar("T")

Labels = Mapping[str, str]
_Pair = tuple[str, str]


def exact_pair(selector: LabelMatcher) -> _Pair | None:
    """Return a label that the selector requires to have one exact value; None if there is none."""
    for requirement in selector.requirements:
        value = selector.exact(requirement.key)
        if value is not None:
            return requirement.key, value
    return None


class Labelled(Generic[T]):
    """Labelled objects in namespaces, indexed for selectors. Comparisons are charged to a budget."""

    def __init__(self, things: Iterable[tuple[str, Labels, T]], steps: Budget) -> None:
        self._steps = steps
        self._by_namespace: dict[str, list[tuple[Labels, T]]] = {}
        self._by_label: dict[tuple[str, str, str], list[tuple[Labels, T]]] = {}
        for namespace, labels, thing in things:
            each = labels, thing
            self._by_namespace.setdefault(namespace, []).append(each)
            for key, value in labels.items():
                self._by_label.setdefault((namespace, key, value), []).append(each)

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces with objects."""
        return self._by_namespace.keys()

    def among(self, namespaces: Iterable[str], selector: LabelMatcher) -> list[T]:
        """Return the objects that a selector matches in some namespaces."""
        pair = exact_pair(selector)
        found: list[T] = []
        for namespace in namespaces:
            candidates = (
                self._by_namespace.get(namespace, []) if pair is None else self._by_label.get((namespace, *pair), [])
            )
            self._steps.spend(1 + len(candidates) * len(selector.requirements))
            found += [thing for labels, thing in candidates if selector.matches(labels)]
        return found


class Selecting(Generic[T]):
    """Objects with a selector in one namespace, indexed by labels; results keep the given order."""

    def __init__(self, things: Sequence[tuple[str, LabelMatcher, T]], steps: Budget) -> None:
        self._steps = steps
        self._by_pair: dict[tuple[str, _Pair | None], list[tuple[int, LabelMatcher, T]]] = {}
        for number, (namespace, selector, thing) in enumerate(things):
            self._by_pair.setdefault((namespace, exact_pair(selector)), []).append((number, selector, thing))

    def meaning(self, namespace: str, labels: Labels) -> list[T]:
        """Return the objects with a selector that matches these labels."""
        candidates = [each for pair in (None, *labels.items()) for each in self._by_pair.get((namespace, pair), ())]
        self._steps.spend(1 + sum(len(selector.requirements) for _, selector, _ in candidates))
        found = [(number, thing) for number, selector, thing in candidates if selector.matches(labels)]
        return [thing for _, thing in sorted(found, key=itemgetter(0))]
