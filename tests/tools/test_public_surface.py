"""The interface of a package is its `__all__`, and other packages use only that.

- Every name in `__all__` is bound in the package's own file, and names that the file imports from below without using
  them are in `__all__`.
- A name imported from a package is in its `__all__`, or is one of its modules; no name with an underscore in front is
  imported from elsewhere.
- A function or a constant in `__all__` is used outside the package. Classes may also be types of return values.
- From another top package, a name that a package offers is imported from the package and not from the module inside.

Read from source files, so nothing is imported and a second is enough.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parents[2] / "src"
BESIDE = ("tests", "tools", "benchmarks")
_IMPORT = re.compile(r"^\s*from (tarmac[\w.]*) import (\([^)]*\)|[^\n]+)", re.MULTILINE)
_AROUND_TODAY = 2
"""Imports that reach around a package's interface. The number may only shrink."""


class Import(NamedTuple):
    """One imported name."""

    by: str
    module: str
    name: str
    bound: str


@cache
def modules() -> dict[str, Path]:
    """Every module and package of the sources, by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(SRC.rglob("*.py")):
        if "_generated" not in path.parts:
            parts = path.relative_to(SRC).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def text_of(module: str) -> str:
    return modules()[module].read_text()


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(text_of(module))


def imports_of(module: str) -> Iterator[Import]:
    """Found by expression: a thousand syntax trees would take longer than everything else here."""
    for found in _IMPORT.finditer(text_of(module)):
        for name in re.findall(r"(\w+)(?: as (\w+))?", re.sub(r"#.*", "", found[2])):
            yield Import(module, found[1], name[0], name[1] or name[0])


@cache
def imports() -> list[Import]:
    """Every import of a name among the sources."""
    return [each for module in modules() for each in imports_of(module)]


def offered(tree: ast.Module) -> list[str] | None:
    """`__all__`, if the file has one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return None


@cache
def packages() -> dict[str, list[str]]:
    """Return the names of packages with an interface."""
    found = {name: offered(tree_of(name)) for name, path in modules().items() if path.name == "__init__.py"}
    return {name: names for name, names in found.items() if names is not None}


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def top(module: str) -> str:
    return module.split(".")[1]


def bindings(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the names that a file binds at its top level, and the statement of each."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        match node:
            case ast.ImportFrom(names=names) if node.module != "__future__":
                found.update({alias.asname or alias.name: node for alias in names})
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case _:
                pass
    found.pop("__all__", None)
    return found


@pytest.mark.parametrize("package", packages())
def test_a_package_offers_what_it_binds_and_does_not_need_for_itself(package: str) -> None:
    tree, names = tree_of(package), packages()[package]
    bound = bindings(tree)
    assert [name for name in names if name not in bound] == [], "in __all__, but not bound"
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    left_out = [name for name in bound if name not in names and name not in used and not name.startswith("_")]
    assert left_out == [], "imported from below, but unused"


@pytest.mark.parametrize("package", packages())
def test_names_imported_from_a_package_are_exported(package: str) -> None:
    taken = {each.name for each in imports() if each.module == package and not is_inside(each.by, package)}
    assert {name for name in taken if f"{package}.{name}" not in modules()} <= set(packages()[package])


@cache
def text_beside() -> str:
    """The text of tests, tools and benchmarks."""
    files = (path for folder in BESIDE for path in (SRC.parent / folder).rglob("*.py") if path != Path(__file__))
    return "\n".join(path.read_text() for path in files)


def is_mentioned(name: str, package: str) -> bool:
    word = re.compile(rf"\b{name}\b")
    outside = (module for module in modules() if not is_inside(module, package))
    return any(name in text_of(module) and word.search(text_of(module)) for module in outside) or bool(
        name in text_beside() and word.search(text_beside())
    )


@pytest.mark.parametrize("package", packages())
def test_every_exported_name_is_imported_elsewhere(package: str) -> None:
    wanted = [name for name in packages()[package] if not name[0].isupper() or name.isupper()]
    assert [name for name in wanted if not is_mentioned(name, package)] == []


def test_a_file_that_says_nothing_about_its_names_offers_none() -> None:
    """The kinds of a group are a function `resources`; every other such package is empty but for its docstring."""
    silent = [name for name, path in modules().items() if path.name == "__init__.py" and name not in packages()]
    open_ended = {name: set(bindings(tree_of(name))) for name in silent}
    taken = {(each.module, each.name) for each in imports() if not is_inside(each.by, each.module)}
    for package, bound in open_ended.items():
        used = {name for name in bound if (package, name) in taken}
        assert used <= {"resources", "__version__"}, package


def test_nothing_private_is_taken_from_elsewhere() -> None:
    private = [each for each in imports() if re.match(r"_(?!_)", each.name) and each.module != each.by]
    assert [f"{each.by} takes {each.module}.{each.name}" for each in private] == []


def test_nobody_goes_around_what_a_package_offers() -> None:
    origins = {
        (each.module, each.name): package
        for package, names in packages().items()
        for each in imports_of(package)
        if each.bound in names
    }
    around = [
        f"{each.by} takes {each.name} from {each.module}, not from {package}"
        for each in imports()
        if (package := origins.get((each.module, each.name))) and top(each.by) != top(package)
    ]
    assert len(around) <= _AROUND_TODAY, "\n".join(around)
