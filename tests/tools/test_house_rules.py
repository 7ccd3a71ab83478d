"""The house rules detect breaches, and accept everything else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import house_rules

Look = Callable[..., list[str]]
"""The breaches of some source, in a place."""


@pytest.fixture
def breaches_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.setattr(house_rules, "ROOT", tmp_path)

    def look(source: str, place: str = "src/tarmac/agent/some.py") -> list[str]:
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'"""What it is for."""\n{source}\n')
        return list(house_rules.module_breaches(file))

    return look


@pytest.mark.parametrize(
    "source",
    [
        "asyncio.create_task(work())",
        "asyncio.ensure_future(work())",
        "loop.create_task(work())",
        "asyncio.get_running_loop().create_task(work())",
        "begin = asyncio.create_task",
        "from asyncio import create_task",
    ],
)
def test_a_task_without_an_owner(breaches_of: Look, source: str) -> None:
    assert "begins a task that nobody owns" in breaches_of(source)[0]
    assert breaches_of(source, "src/tarmac/base/tasks.py") == []


@pytest.mark.parametrize(
    "source", ["group.create_task(work())", "self._group.create_task(work())", "tasks.begin(w, '')"]
)
def test_tasks_with_an_owner(breaches_of: Look, source: str) -> None:
    assert breaches_of(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "os.urandom(4)",
        "draw = os.urandom",
        "from os import urandom",
        "import secrets",
        "from secrets import token_hex",
        "import random",
        "uuid.uuid4()",
        "time.time()",
        "from time import monotonic",
    ],
)
def test_a_clock_or_dice_of_ones_own(breaches_of: Look, source: str) -> None:
    assert "take a Clock or Randomness" in breaches_of(source)[0]
    assert breaches_of(source, "src/tarmac/base/randomness.py") == []


def test_waiting_by_select(breaches_of: Look) -> None:
    assert "select.poll" in breaches_of("select.select([one], [], [], 1)", "tests/some.py")[0]
    assert breaches_of("select.poll()") == []


def test_a_docstring_names_only_exceptions_that_exist_after_raises() -> None:
    source = '''
class Root(OSError): ...
class Leaf(Root): ...
class Value: ...
def good():
    """Read. Raises Leaf, or KeyError when it is gone."""
def bad():
    """Read. Raises OSError, Value and Gone."""
'''
    tree = ast.parse(source)
    known = house_rules.exceptions_of([tree])
    assert list(house_rules.raises_breaches(Path("x.py"), tree, known)) == [
        "x.py:7: Raises Value, which is no exception",
        "x.py:7: Raises Gone, which is no exception",
    ]
