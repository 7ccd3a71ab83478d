"""Terms of pod affinity, pod anti-affinity and topology spread.

Terms are frozen and compare by value, because a count of pods is kept for each distinct term (`census`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.base.selectors import LabelMatcher, Requirement

_NAME_LABEL = "kubernetes.io/metadata.name"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods by label, in some namespaces (None: all), counted per value of a node label."""

    topology_key: str
    namespaces: frozenset[str] | None
    text: str
    selector: LabelMatcher = field(compare=False)
    weight: int = 0

    def matches(self, namespace: str, labels: Labels) -> bool:
        """Return True if the term selects a pod."""
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint. `hard` is DoNotSchedule."""

    term: PodTerm
    max_skew: int
    hard: bool
    min_domains: int = 1
    honours_affinity: bool = True
    label_keys: tuple[str, ...] = ()

    def term_for(self, labels: Labels) -> PodTerm:
        """Return the term for a pod with these labels: `matchLabelKeys` narrow it to the pod's own values."""
        own = [Requirement(key, "=", (labels[key],)) for key in self.label_keys if key in labels]
        if not own:
            return self.term
        selector = LabelMatcher([*self.term.selector.requirements, *own])
        return PodTerm(self.term.topology_key, self.term.namespaces, str(selector), selector)


def pod_term(term: Mapping[str, Any], namespace: str, weight: int = 0) -> PodTerm:
    """Parse a term of pod (anti-)affinity. `namespaceSelector` supports only the label kubernetes.io/metadata.name."""
    selector = LabelMatcher.from_object(term.get("labelSelector"))
    return PodTerm(term["topologyKey"], _namespaces(term, namespace), _text(selector), selector, weight)


def spread_of(constraint: Mapping[str, Any], namespace: str) -> Spread:
    """Parse a topology spread constraint of a pod in this namespace."""
    selector = LabelMatcher.from_object(constraint.get("labelSelector"))
    return Spread(
        PodTerm(constraint["topologyKey"], frozenset((namespace,)), _text(selector), selector),
        constraint.get("maxSkew", 1),
        constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        constraint.get("minDomains") or 1,
        constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        tuple(constraint.get("matchLabelKeys") or ()),
    )


def _text(selector: LabelMatcher) -> str:
    return str(selector) or ("everything" if selector.everything else "nothing")


def _namespaces(term: Mapping[str, Any], own: str) -> frozenset[str] | None:
    named: list[str] = term.get("namespaces") or []
    chosen = term.get("namespaceSelector")
    if chosen is None:
        return frozenset(named or (own,))
    selector = LabelMatcher.from_object(chosen)
    if selector.everything:
        return None
    exact = selector.exact(_NAME_LABEL)
    return frozenset((*named, exact)) if exact is not None else frozenset(named)
