"""Counts comments per package: `python -m tools.comments` prints the figures, `tools.house_rules` fails below a floor.

A comment states a hazard where code cannot: order, cancellation, a crash, a race. The figure of a package is its
comments per 100 lines of code. Pragmas for tools are no comments; blank lines, docstrings and lines with nothing but a
comment are no code. Floors may only rise.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Final

from tools.cache import ROOT

FLOORS: Final = {"agent": 4.9, "controllers": 5.0, "datapath": 4.9, "server": 5.0, "store": 5.0}
"""The minimum for packages whose code waits, is cancelled or survives a kill. Raise one once it is exceeded."""

GOAL: Final = 5.0
_PRAGMA = re.compile(r"#\s*(?:noqa|pyright:|type:|fmt:|ruff:)")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(source: str) -> tuple[int, int]:
    """Return the number of comments and the number of lines of code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [each for each in tokens if each.type == tokenize.COMMENT]
    lines = source.splitlines()
    alone = {each.start[0] for each in comments if lines[each.start[0] - 1].lstrip().startswith("#")}
    without = alone | set(_docstring_lines(ast.parse(source)))
    code = sum(1 for number, line in enumerate(lines, 1) if line.strip() and number not in without)
    return sum(1 for each in comments if not _PRAGMA.match(each.string)), code


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def per_package(sources: Mapping[str, str]) -> dict[str, float]:
    """Return comments per 100 lines of code by package, of sources by path below `src/tarmac`."""
    totals: dict[str, tuple[int, int]] = {}
    for path, source in sources.items():
        package = path.partition("/")[0]
        comments, code = count(source)
        before = totals.get(package, (0, 0))
        totals[package] = before[0] + comments, before[1] + code
    return {package: 100 * comments / code for package, (comments, code) in totals.items() if code}


def comment_breaches(sources: Mapping[str, str], floors: Mapping[str, float] = FLOORS) -> Iterator[str]:
    """Yield the packages with too few comments."""
    found = per_package(sources)
    for package, floor in floors.items():
        if found.get(package, 0.0) < floor:
            yield f"src/tarmac/{package}: {found.get(package, 0.0):.2f} comments per 100 lines of code, below {floor}"


def main() -> None:
    """Print the figure of every package."""
    folder = ROOT / "src" / "tarmac"
    paths = [path for path in folder.rglob("*.py") if "_generated" not in path.parts]
    found = per_package({str(path.relative_to(folder)): path.read_text() for path in paths})
    for package, figure in sorted(found.items()):
        floor = f", floor {FLOORS[package]}" if package in FLOORS else ""
        print(f"{package}: {figure:.1f}{floor}")


if __name__ == "__main__":
    main()
