"""The map of the code names every existing package, and no other."""

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


def test_the_walks_name_files_and_functions_that_exist() -> None:
    walks = PAGE.read_text().partition("## Five walks")[2]
    steps = re.findall(r"^\| `([\w/]+\.py)` \| (`[^|]+`) \|", walks, flags=re.MULTILINE)
    assert len(steps) > 100
    for file, functions in steps:
        source = (SRC / file).read_text()
        for name in re.findall(r"`([\w.]+)`", functions):
            for part in name.split("."):
                assert re.search(rf"\b(?:def|class) {part}\b", source), f"{file} has no {name}"


def test_the_files_of_decisions_exist() -> None:
    decisions = PAGE.read_text().partition("## Where each decision is made")[2]
    files = re.findall(r"`((?:[a-z]+/)+\w+(?:\.py)?|[a-z]+/[\w/]+)`", decisions)
    assert len(files) > 20
    assert [file for file in files if not (SRC / file).exists()] == []
