"""Commands with several steps report each by name, and a test kills them at each; no step is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tarmac.apps
from tests.apps import test_backups, test_moving_to_etcd, test_one_more_server, test_restoring
from tests.machines import test_from_one_machine_to_two as test_two_machines

APPS = Path(tarmac.apps.__file__).parent
KILLED = {
    "backups/backup.py": test_backups.STEPS,
    "backups/restore.py": test_restoring.STEPS,
    "host/initializing.py": test_two_machines.INIT,
    "host/joining.py": test_two_machines.JOIN,
    "host/leaving.py": test_two_machines.LEAVE,
    "host/serverjoining.py": test_one_more_server.STEPS,
    "storemigration.py": test_moving_to_etcd.STEPS,
}
"""Steps by module. Those of `rotate` are writes of a record: `test_killed_rotations` counts them as they are made."""


def told(file: Path) -> Iterator[str]:
    """Yield the steps that a module reports: single words in literals."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(func=ast.Name("tell"), args=[ast.Constant(str(step))]) if " " not in step:
                yield step
            case _:
                pass


def test_every_step_that_is_told_has_a_kill() -> None:
    found = {str(file.relative_to(APPS)): {*told(file)} for file in APPS.rglob("*.py")}
    assert {name: steps for name, steps in found.items() if steps} == {each: {*KILLED[each]} for each in KILLED}


def test_modules_say_their_steps_in_that_order() -> None:
    for name, steps in KILLED.items():
        text = ast.get_docstring(ast.parse((APPS / name).read_text())) or ""
        assert " → ".join(steps) in text.replace("(", ""), name
