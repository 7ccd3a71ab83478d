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
