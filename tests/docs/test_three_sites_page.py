"""The tutorial of three sites shows what happens: its commands are typed on three machines from the package alone."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from tests.docs.sites_tour import PAGE, comparable, replayed, three_machines

pytestmark = [
    pytest.mark.root,
    pytest.mark.serial,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not os.environ.get("TARMAC_SOAK"), reason="NOT RUN: three machines take minutes; TARMAC_SOAK=1 does it"
    ),
]


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    with three_machines(tmp_path) as terminals:
        seen = comparable(replayed(terminals)).splitlines()
    expected = comparable(PAGE.read_text()).splitlines()
    difference = "\n".join(difflib.unified_diff(expected, seen, PAGE.name, "seen", lineterm=""))
    assert not difference, f"{PAGE.name} shows something else than what happens:\n{difference}"
