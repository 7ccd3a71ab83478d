"""House rules that no off-the-shelf linter knows: `python -m tools.house_rules` lists every breach and fails on any.

- a module has a docstring with its purpose, and stays under 600 lines; a function stays under 80
- clock and randomness are injected: only `base` may use the machine's
- no code waits by `select()`, which rejects descriptors from 1024 on
- tasks have owners: they are started by `base/tasks.py`, or by a task group with that name
- every class that a docstring names after "Raises" exists and is an exception
- packages whose code waits or is cancelled have comments at hazards (`tools/comments.py`)
- no path of a developer's machine and no package registry's host in a tracked file
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

from tools.cache import ROOT
from tools.comments import comment_breaches

MAX_MODULE = 600
MAX_FUNCTION = 80
# replacements: tarmac.base.clock, tarmac.base.randomness
BANNED_CALLS = {
    "time.time", "time.monotonic", "time.sleep", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.now",
    "os.urandom", "os.getrandom", "uuid.uuid1", "uuid.uuid4",
}  # fmt: skip
BANNED_MODULES = {"random", "secrets"}
BANNED_NAMES = {tuple(call.rsplit(".", 1)) for call in BANNED_CALLS}
BEGINS_TASKS = {"create_task", "ensure_future"}
TASKS = Path("src/tarmac/base/tasks.py")
BUILTIN_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
FOREIGN_EXCEPTIONS = frozenset({
    "ArgumentTypeError", "CalledProcessError", "HPACKError", "InvalidSignature", "MsgspecError", "SSLError",
    "SubprocessError", "ValidationError", "YAMLError",
})  # fmt: skip
_RAISES = re.compile(r"\bRaises ((?:[A-Z]\w+(?:, and |, or |, | or | and )?)+)")
PRIVATE_TEXT = re.compile(
    r"(^|[\s'\"=:(])/(work|root|home/[a-z]+)/[a-z]|"
    + "|".join(
        ("pypi" + r"\.org", "pythonhosted" + r"\.org", "proxy\\.golang" + r"\.org", "registry\\.npmjs" + r"\.org")
    )
)


def tracked(*patterns: str) -> list[Path]:
    """Files git knows, or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(set(listed)) if (ROOT / name).is_file()]


def module_breaches(path: Path) -> Iterator[str]:
    """Rules about one Python module."""
    source = path.read_text()
    name = path.relative_to(ROOT)
    tree = ast.parse(source)
    lines = source.count("\n")
    if lines > MAX_MODULE:
        yield f"{name}: {lines} lines; {MAX_MODULE} is the most a module may have"
    if source.strip() and not ast.get_docstring(tree):
        yield f"{name}: the module says nowhere what it is for"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines; {MAX_FUNCTION} is the most"
        elif isinstance(node, ast.Attribute) and _injects_here(name) and ast.unparse(node) in BANNED_CALLS:
            yield f"{name}:{node.lineno}: {ast.unparse(node)} is used directly; take a Clock or Randomness"
        elif isinstance(node, ast.Import | ast.ImportFrom) and _injects_here(name) and _imports_banned(node):
            yield f"{name}:{node.lineno}: `{ast.unparse(node)}`; take a Clock or Randomness"
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "select.select":
            yield f"{name}:{node.lineno}: select.select refuses descriptors from 1024 on; take select.poll"
        if name.is_relative_to("src/tarmac") and name != TASKS and (what := _begins_a_task(node)):
            yield f"{name}:{what} begins a task that nobody owns; see tarmac.base.tasks"


def exceptions_of(trees: Iterable[ast.Module]) -> frozenset[str]:
    """The names of all classes that derive from an exception, directly or not."""
    bases: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found = (ast.unparse(each).rpartition(".")[2] for each in node.bases)
                bases.setdefault(node.name, set()).update(each.partition("[")[0] for each in found)
    known = BUILTIN_EXCEPTIONS | FOREIGN_EXCEPTIONS
    while more := {name for name, of in bases.items() if name not in known and of & known}:
        known |= more
    return known


def raises_breaches(name: Path, tree: ast.Module, known: Set[str]) -> Iterator[str]:
    """Docstrings that name an exception which does not exist."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = " ".join((ast.get_docstring(node) or "").split())
            for match in _RAISES.finditer(text):
                for word in re.findall(r"[A-Z]\w+", match.group(1)):
                    if word not in known:
                        yield f"{name}:{getattr(node, 'lineno', 1)}: Raises {word}, which is no exception"


def _imports_banned(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(each.name in BANNED_MODULES for each in node.names)
    return node.module in BANNED_MODULES or any((node.module, each.name) in BANNED_NAMES for each in node.names)


def _begins_a_task(node: ast.AST) -> str:
    """Return line and text of a call that starts a task outside a task group. Passing the function on counts, too."""
    if isinstance(node, ast.Attribute) and node.attr in BEGINS_TASKS:
        owner = ast.unparse(node.value).rpartition(".")[2]
        return "" if owner in ("group", "_group") else f"{node.lineno}: {ast.unparse(node)}"
    if isinstance(node, ast.ImportFrom) and node.module == "asyncio":
        return next((f"{node.lineno}: {each.name}" for each in node.names if each.name in BEGINS_TASKS), "")
    return ""


def _injects_here(name: Path) -> bool:
    return name.is_relative_to("src/tarmac") and not name.is_relative_to("src/tarmac/base")


def text_breaches(path: Path) -> Iterator[str]:
    """Rules about any tracked text."""
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if PRIVATE_TEXT.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: names a private path or a package registry's host"


def main() -> int:
    """Print every breach."""
    breaches = [breach for path in tracked("*.py") for breach in module_breaches(path)]
    product = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in tracked("src/tarmac/*.py")}
    known = exceptions_of(product.values())
    breaches += [breach for name, tree in product.items() for breach in raises_breaches(name, tree, known)]
    below = {str(name.relative_to("src/tarmac")): (ROOT / name).read_text() for name in product}
    breaches += comment_breaches(below)
    breaches += [breach for path in tracked() if path.name != "house_rules.py" for breach in text_breaches(path)]
    print("\n".join(breaches) if breaches else "house rules: fine")
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main())
