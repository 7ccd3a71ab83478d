"""The tutorial of three sites has real output: its commands run on three machines from the package alone."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.docs.sites_tour import PAGE, comparable, replayed, three_machines

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(1800),
    pytest.mark.soak(minutes=6, only=True),
]


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    with three_machines(tmp_path) as terminals:
        seen = comparable(replayed(terminals)).splitlines()
    expected = comparable(PAGE.read_text()).splitlines()
    difference = "\n".join(difflib.unified_diff(expected, seen, PAGE.name, "seen", lineterm=""))
    assert not difference, f"{PAGE.name} shows something else than what happens:\n{difference}"
