"""CEL constraints choose places by their topology."""

from __future__ import annotations

import pytest

from tarmac.api.compute.constraint import ConstraintError, compile_constraint

DALLAS = {"topology.datum.net/region": "US", "topology.datum.net/city-code": "DFW", "tier": "gold"}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("region in ['US', 'EU']", True),
        ("region == 'EU'", False),
        ("cityCode.startsWith('D') && topology['tier'] == 'gold'", True),
        ("topology.tier == 'gold'", True),
        ("topology['absent'] == ''", True),
        ("topology.absent != ''", False),
        ("'absent' in topology", False),
    ],
)
def test_expressions(text: str, chosen: bool) -> None:
    assert compile_constraint(text)(DALLAS) is chosen


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("zone == 'a'", "column 1: undeclared reference to 'zone'"),
        ("region", "must be a bool, but is of type string"),
        ("region == 1", "column 8: found no matching overload for '_==_' applied to '(string, int)'"),
        ("region in [", "column 12: Syntax error"),
    ],
)
def test_what_does_not_compile(text: str, complaint: str) -> None:
    with pytest.raises(ConstraintError) as refusal:
        compile_constraint(text)
    assert str(refusal.value).startswith(complaint)


def test_a_constraint_that_takes_too_many_steps_is_refused_when_written() -> None:
    """Not when a controller tries it, place by place."""
    numbers = list(range(30))
    with pytest.raises(ConstraintError, match="Iteration budget exceeded"):
        compile_constraint(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))")


def test_a_constraint_without_an_answer_for_a_place_says_so() -> None:
    """It is neither a yes nor a no, nor a crash."""
    with pytest.raises(ConstraintError, match="divide by zero"):
        compile_constraint("1 / 0 == 1")({})
