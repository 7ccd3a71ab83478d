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
def test_constraints_with_errors_do_not_compile(text: str, complaint: str) -> None:
    with pytest.raises(ConstraintError) as refusal:
        compile_constraint(text)
    assert str(refusal.value).startswith(complaint)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2].all(x, [1, 2].all(y, x == y))",
        "[[1, 1, 1, 1]].map(x, x+x+x+x+x+x).map(x, x+x+x+x+x+x).map(x, x+x+x+x+x+x) == [[1]]",
        "[1].map//a comment\n(x, x).map//another\n(x, x) == [1]",
        f"[{', '.join('1' * 300)}].exists(x, x == 2)",
    ],
)
def test_loops_that_could_take_long_are_refused_when_written(text: str) -> None:
    with pytest.raises(ConstraintError, match=r"loop"):
        compile_constraint(text)


def test_one_loop_over_the_topology_is_allowed() -> None:
    matches = compile_constraint("topology.exists(key, key.startsWith('example.com/'))")
    assert matches({"example.com/fast": "yes"})
    assert not matches({"other": "yes"})


def test_a_constraint_without_an_answer_for_a_place_says_so() -> None:
    """The result is an error: neither true nor false, nor an exception."""
    with pytest.raises(ConstraintError, match="divide by zero"):
        compile_constraint("1 / 0 == 1")({})
