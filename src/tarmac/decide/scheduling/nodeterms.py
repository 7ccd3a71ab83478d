"""Node selectors and node affinity of pods and disks, compiled once for all pods of a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tarmac.base.selectors import Requirement

HOSTNAME: Final = "kubernetes.io/hostname"
NAME_FIELD: Final = "metadata.name"

Labels = Mapping[str, str]
NodePredicate = Callable[[str, Labels], bool]
"""Returns True if a node of this name with these labels matches."""

_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes chosen by labels and names.

    `keys` are the labels in use. `pinned` are the only names that can match, if the choice is that narrow; a name is a
    node's own or its hostname label.
    """

    text: str
    keys: frozenset[str]
    matches: NodePredicate
    pinned: frozenset[str] | None = None


def choice_of(labels: Labels, terms: Sequence[Mapping[str, Any]] | None) -> NodeChoice | None:
    """Combine `nodeSelector` and required node affinity; None if both are empty."""
    chosen = any_of(terms) if terms is not None else None
    if not labels:
        return chosen
    wanted = all_of([Requirement(key, "=", (value,)) for key, value in labels.items()])
    return wanted if chosen is None else _both(wanted, chosen)


def any_of(terms: Sequence[Mapping[str, Any]]) -> NodeChoice:
    """Compile node selector terms: a node must match one of them. No term, or an empty one, matches nothing."""
    compiled = [all_of(_requirements(term), _requirements(term, "matchFields")) for term in terms if any(term.values())]
    predicates = [choice.matches for choice in compiled]
    pins = [choice.pinned for choice in compiled]
    return NodeChoice(
        " or ".join(choice.text for choice in compiled),
        frozenset[str]().union(*(choice.keys for choice in compiled)),
        lambda name, labels: any(matches(name, labels) for matches in predicates),
        frozenset[str]().union(*(pin for pin in pins if pin is not None)) if None not in pins else None,
    )


def all_of(on_labels: Sequence[Requirement], on_fields: Sequence[Requirement] = ()) -> NodeChoice:
    """Compile requirements that must all hold."""
    labels_match = [requirement.predicate() for requirement in on_labels]
    fields_match = [requirement.predicate() for requirement in on_fields]

    def matches(name: str, labels: Labels) -> bool:
        return all(match(labels) for match in labels_match) and all(match({NAME_FIELD: name}) for match in fields_match)

    everything = [*on_labels, *on_fields]
    return NodeChoice(
        ",".join(map(str, everything)),
        frozenset(requirement.key for requirement in on_labels),
        matches,
        next((frozenset(item.values) for item in everything if _pins(item)), None),
    )


def _both(first: NodeChoice, second: NodeChoice) -> NodeChoice:
    return NodeChoice(
        f"{first.text} and {second.text}",
        first.keys | second.keys,
        lambda name, labels: first.matches(name, labels) and second.matches(name, labels),
        first.pinned if first.pinned is not None else second.pinned,
    )


def _pins(requirement: Requirement) -> bool:
    return requirement.key in {HOSTNAME, NAME_FIELD} and requirement.operator in {"=", "in"}


def _requirements(term: Mapping[str, Any], field: str = "matchExpressions") -> list[Requirement]:
    return [
        Requirement(entry["key"], _OPERATORS[entry["operator"]], tuple(entry.get("values") or ()))
        for entry in term.get(field) or ()
    ]
