"""Finds import cycles between modules and between sibling packages of `src`.

Imports inside functions and under TYPE_CHECKING count: they hide a cycle from Python, not from the reader.
A module belongs to its package: two packages that import each other through any of their modules are a cycle, and so
are a package and a module beside it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, Collection[str]]
"""The imports of each module or package."""


def imports(trees: Mapping[str, ast.Module]) -> Graph:
    """The modules of `trees` that each of them imports, by dotted name."""
    modules = {dotted(path): path for path in trees}
    return {name: sorted(set(_imported(trees[path], modules)) - {name}) for name, path in modules.items()}


def dotted(path: str) -> str:
    """Return the name of a module in `src`, without the common package."""
    name = Path(path).relative_to("src").with_suffix("")
    return ".".join(name.parent.parts if name.name == "__init__" else name.parts)


def _imported(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules:
                    yield node.module


def between_siblings(graph: Graph) -> Graph:
    """The imports between the children of each package: packages, and modules beside them."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in graph.items():
        for other in imported:
            ours, theirs = name.split("."), other.split(".")
            shared = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            if shared is not None:
                found[".".join(ours[: shared + 1])].add(".".join(theirs[: shared + 1]))
    return found


def cycles(graph: Graph) -> list[list[str]]:
    """The strongly connected components with more than one member, each sorted (Tarjan's algorithm, no recursion)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = lowest[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = lowest[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in on_stack:
                    lowest[name] = min(lowest[name], index[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == index[name]:
                    component = [stack.pop()]
                    while component[-1] != name:
                        component.append(stack.pop())
                    on_stack -= set(component)
                    if len(component) > 1:
                        found.append(sorted(component))
    return sorted(found)


def import_cycles(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Every import within a cycle of modules or of siblings, so that a list of them shrinks with each one removed."""
    graph = imports(trees)
    found: set[str] = set()
    for each in (graph, between_siblings(graph)):
        for members in cycles(each):
            found |= {f"{name} imports {other}" for name in members for other in each[name] if other in members}
    yield from sorted(found)
