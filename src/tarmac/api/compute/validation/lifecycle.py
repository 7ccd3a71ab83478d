"""The life cycle of a catalogue entry: it only moves forward, and names a replacement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tarmac.api.checks import mapping
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PHASES = ("Active", "Deprecated", "Disabled")
_PHASE = "spec.lifecycle.phase"


class HasPhase(Protocol):
    """The facts about another entry."""

    @property
    def phase(self) -> str:
        """Active, Deprecated or Disabled."""
        ...


class CatalogueWords(NamedTuple):
    """The nouns of a catalogue, and the field that names a replacement."""

    noun: str
    short: str
    replacement: str


def check_lifecycle(
    obj: JsonObject, old: JsonObject | None, words: CatalogueWords, known: Mapping[str, HasPhase], errors: FieldErrors
) -> None:
    """Check the life cycle of an entry; `old` is None on create, `known` are the existing entries."""
    new, before = mapping(obj, "spec", "lifecycle"), mapping(old, "spec", "lifecycle")
    phase = new.get("phase", "Active")
    if phase not in _PHASES:
        return  # reported by the check of bounds
    if old is None and phase != "Active":
        errors.invalid(_PHASE, phase, f"a new {words.noun} must be Active")
    elif _PHASES.index(phase) < _PHASES.index(before.get("phase", "Active")):
        errors.invalid(_PHASE, phase, f"may not go back from {before.get('phase', 'Active')}")
    _replacement(new, before, obj["metadata"].get("name", ""), words, known, errors)


def _replacement(
    new: JsonObject,
    before: JsonObject,
    name: str,
    words: CatalogueWords,
    known: Mapping[str, HasPhase],
    errors: FieldErrors,
) -> None:
    path, replacement = f"spec.lifecycle.{words.replacement}", new.get(words.replacement, "")
    if not replacement:
        if new.get("phase", "Active") != "Active":
            errors.required(path, f"must be set once the {words.short} is not Active")
    elif replacement == name:
        errors.invalid(path, replacement, f"may not be the {words.short} itself")
    elif replacement != before.get(words.replacement):
        facts = known.get(replacement)
        if facts is None:
            errors.not_found(path, replacement)
        elif facts.phase != "Active":
            errors.invalid(path, replacement, f"must be Active, but is {facts.phase}")
