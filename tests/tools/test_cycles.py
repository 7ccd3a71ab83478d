"""Import cycles are found wherever an import is written, between modules and between packages."""

from __future__ import annotations

import ast

from tools.cycles import cycles, import_cycles


def found(**modules: str) -> list[str]:
    return list(import_cycles({f"src/{name.replace('__', '/')}.py": ast.parse(text) for name, text in modules.items()}))


def test_imports_in_one_direction_are_no_cycle() -> None:
    assert found(app__a="from app.b import x", app__b="import app.c", app__c="import os") == []


def test_modules_that_import_each_other_are_a_cycle() -> None:
    assert found(app__a="from app.b import x", app__b="from app import a") == [
        "app.a imports app.b",
        "app.b imports app.a",
    ]


def test_an_import_inside_a_function_counts() -> None:
    assert found(app__a="def f():\n    from app.b import x", app__b="import app.a") == [
        "app.a imports app.b",
        "app.b imports app.a",
    ]


def test_an_import_for_type_checkers_counts() -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.b import x"
    assert found(app__a=guarded, app__b="import app.a") == ["app.a imports app.b", "app.b imports app.a"]


def test_packages_that_import_each_other_through_different_modules_are_a_cycle() -> None:
    assert found(app__p__a="import app.q.a", app__p__b="", app__q__a="", app__q__b="import app.p.b") == [
        "app.p imports app.q",
        "app.q imports app.p",
    ]


def test_a_package_and_a_module_beside_it_are_a_cycle() -> None:
    assert found(app__p__a="import app.m", app__p__b="", app__m="from app.p.b import x") == [
        "app.m imports app.p",
        "app.p imports app.m",
    ]


def test_only_imports_within_the_cycle_are_listed() -> None:
    modules = {"app__a": "import app.b", "app__b": "import app.c", "app__c": "import app.a, app.d", "app__d": ""}
    assert found(**modules) == ["app.a imports app.b", "app.b imports app.c", "app.c imports app.a"]


def test_two_cycles_that_share_no_module_are_two() -> None:
    graph = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": []}
    assert cycles(graph) == [["a", "b"], ["c", "d"]]
