"""Behaviour that all providers share."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.running import NAMES, VERSION, asked, run, start
from tools.cache import ROOT

FORMULAS = tuple(name for name in NAMES if name != "brackets")


def source(name: str) -> str:
    return (ROOT / "plugins" / name).read_text()


def test_there_are_no_others_and_each_is_checked() -> None:
    assert tuple(sorted(os.listdir(ROOT / "plugins"))) == NAMES
    assert all(f'"plugins/{name}"' in (ROOT / "pyproject.toml").read_text() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_one_executable_file_that_needs_only_python(name: str) -> None:
    path = ROOT / "plugins" / name
    assert path.is_file()
    assert not path.is_symlink()
    assert os.access(path, os.X_OK)
    imported = [node for node in ast.walk(ast.parse(source(name))) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {each.module if isinstance(each, ast.ImportFrom) else each.names[0].name for each in imported}
    assert {str(module).partition(".")[0] for module in modules} <= sys.stdlib_module_names


def test_shared_code_is_identical_in_each_provider() -> None:
    shared = {
        source(name).partition("# --- the same in every provider")[2].partition("# --- its own")[0] for name in NAMES
    }
    assert len(shared) == 1
    assert len(shared.pop()) > 1000


@pytest.mark.parametrize("name", FORMULAS)
def test_a_process_of_its_own_answers_the_same(name: str) -> None:
    machine = ("--cpus=6", "--memory=24Gi")
    assert start(name, *machine) == run(name, *machine)
    assert start(name, "--cpus=x").code == start(name, request={}).code == 1


@pytest.mark.parametrize("name", FORMULAS)
def test_without_arguments_it_is_about_this_machine(name: str) -> None:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert asked(name) == asked(name, f"--cpus={os.cpu_count()}", f"--memory={memory.split()[1]}Ki", "--max-pods=110")


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (
            {"kind": "SizingProviderRequest", "apiVersion": "v2"},
            f"apiVersion is 'v2'; this provider answers '{VERSION}'",
        ),
        ({"kind": "Pod", "apiVersion": VERSION}, "kind is 'Pod'"),
        ([], "kind is None"),
        ("", "is no JSON"),
        ("{", "is no JSON"),
    ],
)
def test_a_request_for_somebody_else_is_refused(name: str, request_: Any, told: str) -> None:
    ran = run(name, request=request_)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(
    "args", [("--cpus=-1",), ("--cpus=1.5",), ("--memory=x",), ("--max-pods=",), ("--mem=1Gi",), ("--fly",), ("word",)]
)
def test_a_bad_argument_is_refused(name: str, args: tuple[str, ...]) -> None:
    ran = run(name, *args)
    assert (ran.code, ran.out) == (1, "")
    assert f"{name}: " in ran.err
