"""Describes the differences between two runs of one case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differential.steps import Case, Step

ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """One difference between the servers: `where` is `2/body.metadata.name` for the response to the second request."""

    where: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where}\n    real: {_shown(self.real)}\n    ours: {_shown(self.ours)}"


def differences(real: Sequence[Any], ours: Sequence[Any]) -> list[Difference]:
    """All of them, in order."""
    pairs = enumerate(zip(real, ours, strict=True), start=1)
    return [each for number, (left, right) in pairs for each in _compare(f"{number}/", left, right)]


def _compare(where: str, real: Any, ours: Any) -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in [*real, *(key for key in ours if key not in real)]:
            separator = "" if where.endswith("/") else "."
            yield from _compare(f"{where}{separator}{key}", real.get(key, ABSENT), ours.get(key, ABSENT))
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from _compare(f"{where}[{index}]", left, right)
    elif real != ours or type(real) is not type(ours):
        yield Difference(where, real, ours)


def report(case: Case, found: Sequence[Difference]) -> str:
    """Return the differences under the requests they belong to."""
    lines = [f"{case.id}: the servers differ"]
    for number, step in enumerate(_flat(case.steps), start=1):
        lines.append(f"{number}. {step.method} {step.path}" + (f"  {_shown(step.body)[:200]}" if step.body else ""))
        lines += [f"  {each}" for each in found if each.where.startswith(f"{number}/")]
    return "\n".join(lines)


def _flat(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield from _flat(step.during)
        yield step


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "(absent)"
    text = repr(value) if isinstance(value, bytes) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) < 1500 else text[:1500] + " …"
