"""The README's tour shows real output."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.docs.tour import README, comparable, real_cities, replayed


@pytest.mark.root
@pytest.mark.serial
@pytest.mark.timeout(240)
def test_the_tour_reads_as_it_runs(tmp_path: Path) -> None:
    text = README.read_text()
    with real_cities(tmp_path) as server:
        seen = comparable(replayed(text, server, tmp_path)).splitlines()
    expected = comparable(text).splitlines()
    difference = "\n".join(difflib.unified_diff(expected, seen, "README", "seen", lineterm=""))
    assert not difference, f"the README shows something else than what happens:\n{difference}"
