"""The count of comments, and its floors."""

from __future__ import annotations

from tools.comments import FLOORS, GOAL, comment_breaches, count, per_package

SOURCE = '''"""A module.

# no comment, but part of a docstring
"""

import os  # noqa: F401

# Before the write: a kill in between leaves the old file.
# The second line of the same reason.
x = "# no comment"  # bytes


def work() -> None:
    """Work."""
    y = 1  # pyright: ignore
'''


def test_pragmas_docstrings_and_strings_are_no_comments() -> None:
    assert count(SOURCE) == (3, 4)


def test_figures_are_per_package_and_hundred_lines_of_code() -> None:
    assert per_package({"agent/a.py": SOURCE, "agent/b/c.py": SOURCE, "server/d.py": "x = 1\n"}) == {
        "agent": 75.0,
        "server": 0.0,
    }


def test_a_package_below_its_floor_is_a_breach() -> None:
    sources = {"agent/a.py": SOURCE, "server/d.py": "x = 1\n"}
    assert list(comment_breaches(sources, {"agent": 75.0})) == []
    assert list(comment_breaches(sources, {"server": 0.5})) == [
        "src/tarmac/server: 0.00 comments per 100 lines of code, below 0.5"
    ]


def test_floors_are_at_most_the_goal() -> None:
    assert FLOORS.keys() == {"agent", "controllers", "datapath", "server", "store"}
    assert all(0 < floor <= GOAL for floor in FLOORS.values())
