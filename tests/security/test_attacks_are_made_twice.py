"""Every mistake in the table of docs/explanation/security.md has tests that make its attack twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.cache import ROOT

PAGE = ROOT / "docs" / "explanation" / "security.md"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TITLE = "### Where the same mistake was looked for"


def rows() -> list[list[str]]:
    """The cells of the table."""
    section = PAGE.read_text().partition(TITLE)[2].partition("\n### ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def made_twice(folder: Path) -> Iterator[str]:
    """The names of tests that are marked TWICE."""
    for path in folder.rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "@TWICE" in text else ():
            if isinstance(node, FUNCTIONS) and any(map(is_twice, node.decorator_list)):
                yield node.name


def is_twice(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Name) and mark.id == "TWICE"


def test_every_mistake_has_an_attack_without_its_defence() -> None:
    found, known = rows(), set(made_twice(ROOT / "tests"))
    assert len(found) >= 24
    for mistake, looked_at, had_it, tests in found:
        assert looked_at, mistake
        assert had_it, mistake
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, mistake
        assert set(named) <= known, (mistake, set(named) - known)


def test_every_test_of_a_file_without_a_defence_is_made_twice() -> None:
    """Files that only read the served state are excepted."""
    plain = {"test_extreme_limit_ranges_are_stored_changed_and_enforced"}
    for path in (ROOT / "tests" / "security").glob("test_*without_a_defence.py"):
        found = [each for each in ast.parse(path.read_text()).body if isinstance(each, FUNCTIONS)]
        tests = {each.name for each in found if each.name.startswith("test_")}
        assert tests - plain <= set(made_twice(path.parent)), path.name
