"""The map of the code names every package that there is, and no other."""

from __future__ import annotations

import re

from tools.cache import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SRC = ROOT / "src" / "tarmac"
INSIDE = ("server", "decide", "controllers", "agent")


def packages(folder: str = "") -> set[str]:
    found = (path.parent.relative_to(SRC) for path in (SRC / folder).glob("*/__init__.py"))
    return {str(path) for path in found}


def rows(pattern: str) -> set[str]:
    return set(re.findall(pattern, PAGE.read_text(), flags=re.MULTILINE))


def test_every_top_package_has_its_layer() -> None:
    assert rows(r"^\| \d \| `(\w+)` \|") == packages()


def test_packages_within_are_told_one_by_one() -> None:
    told = rows(r"^\| `((?:server|decide|controllers|agent)/\w+)` \|")
    assert told == {package for folder in INSIDE for package in packages(folder)}
