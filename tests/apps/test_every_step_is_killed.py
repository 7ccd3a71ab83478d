"""Commands with several steps report each by name, and a test kills them at each; no step is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tarmac.apps
from tests.apps import test_backups, test_moving_to_etcd, test_one_more_server, test_restoring
from tests.machines import test_from_one_machine_to_two as test_two_machines
from tests.machines import test_servers_with_members as test_members


def with_etcd(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Insert the step of clusters with an etcd that Tarmac runs."""
    before = steps.index("server")
    return (*steps[:before], *test_members.STEPS, *steps[before:])


APPS = Path(tarmac.apps.__file__).parent
KILLED = {
    "backups/backup.py": test_backups.STEPS,
    "backups/restore.py": test_restoring.STEPS,
    "host/etcdverbs.py": test_members.STEPS,
    "host/initializing.py": with_etcd(test_two_machines.INIT),
    "host/joining.py": test_two_machines.JOIN,
    "host/leaving.py": test_two_machines.LEAVE,
    "host/serverjoining.py": with_etcd(test_one_more_server.STEPS),
    "storemigration.py": test_moving_to_etcd.STEPS,
}
"""Steps by module. Those of `rotate` are writes of a record: `test_killed_rotations` counts them as they are made."""


def reported_steps(file: Path) -> Iterator[str]:
    """Yield the steps that a module reports: single words in literals."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(func=ast.Name("print_progress"), args=[ast.Constant(str(step))]) if " " not in step:
                yield step
            case _:
                pass


def test_every_reported_step_has_a_kill() -> None:
    found = {str(file.relative_to(APPS)): {*reported_steps(file)} for file in APPS.rglob("*.py")}
    assert {name: steps for name, steps in found.items() if steps} == {each: {*KILLED[each]} for each in KILLED}


def test_docstrings_of_modules_list_their_steps_in_order() -> None:
    for name, steps in KILLED.items():
        text = ast.get_docstring(ast.parse((APPS / name).read_text())) or ""
        for optional in test_members.STEPS:
            text = text.replace(f"({optional}) → ", "")
        always = [step for step in steps if step not in test_members.STEPS]
        assert " → ".join(always) in text.replace("(", ""), name
