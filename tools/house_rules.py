"""House rules that no off-the-shelf linter knows: `python -m tools.house_rules` lists every breach and fails on any.

- a module says in a docstring what it is for, and stays under 600 lines; a function stays under 80
- the clock and the dice are injected: only `base` may ask the machine for them
- no path of somebody's machine and no package registry's host in a tracked file
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.cache import ROOT

MAX_MODULE = 600
MAX_FUNCTION = 80
# what to use instead: tarmac.base.clock, tarmac.base.randomness
BANNED_CALLS = {
    "time.time", "time.monotonic", "time.sleep", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.now",
    "random.random", "random.randint", "random.choice", "random.uniform", "random.Random", "uuid.uuid4",
    "secrets.token_hex",
}  # fmt: skip
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
        elif isinstance(node, ast.Call) and _injects_here(name) and ast.unparse(node.func) in BANNED_CALLS:
            yield f"{name}:{node.lineno}: {ast.unparse(node.func)} is called directly; take a Clock or Randomness"


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
    breaches += [breach for path in tracked() if path.name != "house_rules.py" for breach in text_breaches(path)]
    print("\n".join(breaches) if breaches else "house rules: fine")
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main())
