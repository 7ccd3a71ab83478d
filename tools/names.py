"""Checks names: `python -m tools.names` fails on a new breach, and on an exception that is no longer needed.

- a public class name is unique in `src`
- a file name appears at most three times in `src`, so that a search by name finds the file
- constants of limits and times use the words of the field: MAX, MIN, TIMEOUT, INTERVAL, RETRY, DEBOUNCE, CHUNK
- no test, and no heading of a page, begins with a question word used as a noun phrase
- no import cycle exists between modules or between sibling packages (`tools/cycles.py`)
- a commit title has at most 72 characters, begins with a verb in the imperative, and names a part of the project

`tools/names.json` lists the exceptions. The list may only shrink: `--lower` removes entries that are no longer needed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.cache import ROOT
from tools.cycles import import_cycles
from tools.house_rules import tracked

MAX_SAME_FILE_NAME = 3
MAX_TITLE = 72
EXCEPTIONS = ROOT / "tools" / "names.json"
ROLE_FILES = frozenset({"__init__.py", "controller.py", "errors.py", "strategy.py"})  # named after a role
CHECKED_SINCE = "802b16c7"  # titles of earlier commits cannot change
_PRIVATE_UNIT = re.compile(r"(?:^|_)(MOST|LONGEST|LARGEST|SHORTEST|PATIENCE|EVERY|AGAIN|GATHER|PIECE|PIECES)(?:_|$)")
_PRIVATE_NUMBER = re.compile(r"(?:^|_)(LOOK|LEAST|ROOM|WORDS)(?:_|$)")  # of a number they are units, else often not
_QUESTION_TEST = re.compile(
    r"^ *(?:async )?def (test_(?:what|which|who|whoever|whose|whether|how|why)_\w+)", re.MULTILINE
)
_QUESTION_HEADING = re.compile(r"^#+ (What|Which|Who|Whose|Whether|How(?!-to)|Why)\b(?!.*\?$)")
_NOT_IMPERATIVE = re.compile(r"\w+(?:ed|ing)$")
_IMPERATIVES = frozenset({"Embed", "Feed", "Need", "Seed", "Shed", "Speed", "Bring", "Ping", "String"})
_WORD = re.compile(r"[A-Za-z][A-Za-z-]{2,}")
_PART = re.compile(r"[A-Z][a-z]{2,}")

Found = Mapping[str, list[str]]
"""Breaches by rule."""


def repeated_classes(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield public top-level classes with a name that more than one module defines."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    for name, modules in homes.items():
        if len(modules) > 1:
            yield from (f"{module}: {name}" for module in modules)


def repeated_files(modules: Iterable[str]) -> Iterator[str]:
    """Yield names that too many files have, once for each file beyond the maximum: a move changes nothing."""
    for name, count in Counter(Path(module).name for module in modules).items():
        if name not in ROLE_FILES:
            yield from (f"{name}: {number}" for number in range(MAX_SAME_FILE_NAME + 1, count + 1))


def private_constants(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield constants of limits and times without the usual words, which a search would not find."""
    for module, tree in trees.items():
        for node in tree.body:
            for name in _assigned(node):
                of_number = _is_number(node) and _PRIVATE_NUMBER.search(name)
                if name.isupper() and (_PRIVATE_UNIT.search(name) or of_number):
                    yield f"{module}: {name}"


def _is_number(node: ast.stmt) -> bool:
    """True for an assignment of numbers, computed ones and tuples of them included."""
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if value is None:
        return False
    parts = [each for each in ast.walk(value) if isinstance(each, ast.expr)]
    computed = (ast.BinOp, ast.UnaryOp, ast.Tuple)
    return all(isinstance(getattr(each, "value", None), int | float) or isinstance(each, computed) for each in parts)


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def question_tests(sources: Mapping[str, str]) -> Iterator[str]:
    """Yield tests whose name begins with a question word instead of their subject."""
    for module, source in sources.items():
        yield from (f"{module}: {name}" for name in _QUESTION_TEST.findall(source))


def question_headings(pages: Mapping[str, str]) -> Iterator[str]:
    """Yield headings that begin with a question word without being a question."""
    for page, text in pages.items():
        fenced = False
        for line in text.splitlines():
            fenced ^= line.startswith("```")
            if not fenced and _QUESTION_HEADING.match(line):
                yield f"{page}: {line}"


def title_breaches(titles: Iterable[str], vocabulary: frozenset[str]) -> Iterator[str]:
    """Yield commit titles that are too long, not imperative, or name nothing in the project."""
    for title in titles:
        first, *rest = _WORD.findall(title) or [""]
        if len(title) > MAX_TITLE:
            yield f"{title}: {len(title)} characters"
        elif not first[:1].isupper() or (_NOT_IMPERATIVE.match(first) and first not in _IMPERATIVES):
            yield f"{title}: begin with a verb in the imperative"
        elif not any(word.lower() in vocabulary for word in rest):
            yield f"{title}: name the part of the project that changes"


def _sources(*patterns: str) -> Mapping[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in tracked(*patterns)}


def _titles() -> list[str]:
    command = ["git", "log", "--no-merges", "--format=%s", f"{CHECKED_SINCE}..HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"names: commit titles are not checked: {CHECKED_SINCE} is not in this clone", file=sys.stderr)
    return done.stdout.splitlines()


def vocabulary(texts: Iterable[str]) -> frozenset[str]:
    """Every word of the code and the pages, in lower case; identifiers are split at underscores and capitals."""
    words = {word for text in texts for word in _WORD.findall(text.replace("_", " "))}
    parts = {part for word in words for part in _PART.findall(word)}
    return frozenset(word.lower() for word in words | parts)


def measure() -> Found:
    """All breaches, by rule."""
    source, tests, pages = _sources("src/tarmac/*.py"), _sources("tests/*.py"), _sources("docs/*.md", "README.md")
    trees = {module: ast.parse(text) for module, text in source.items()}
    known = vocabulary((*source.values(), *tests.values(), *pages.values()))
    return {
        "repeated class names": sorted(repeated_classes(trees)),
        "repeated file names": sorted(repeated_files(source)),
        "constants": sorted(private_constants(trees)),
        "import cycles": list(import_cycles(trees)),
        "test names": sorted(question_tests(tests)),
        "headings": sorted(question_headings(pages)),
        "commit titles": list(title_breaches(_titles(), known)),
    }


def breaches(found: Found, exceptions: Found) -> Iterator[str]:
    """Breaches that are not listed, and listed ones that are gone."""
    for rule, entries in found.items():
        listed = exceptions.get(rule, [])
        for entry in sorted(set(entries) - set(listed)):
            yield f'names: {rule}: {entry}; see "Words" in CONTRIBUTING.md'
        for entry in sorted(set(listed) - set(entries)):
            yield f"names: {rule}: {entry} is listed but gone; run `python -m tools.names --lower`"


def lowered(found: Found, exceptions: Found) -> dict[str, list[str]]:
    """The exceptions that are still needed."""
    kept = {rule: [entry for entry in exceptions.get(rule, []) if entry in entries] for rule, entries in found.items()}
    return {rule: entries for rule, entries in kept.items() if entries}


def main() -> int:
    """Print every breach, or shorten the list of exceptions."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--lower", action="store_true", help="remove exceptions that are not needed any more")
    flags.add_argument(
        "--count", action="store_true", help="print the number of breaches of each rule, exceptions included"
    )
    asked = flags.parse_args()
    found = measure()
    exceptions: Found = json.loads(EXCEPTIONS.read_text())
    if asked.count:
        print("\n".join(f"{rule}: {len(entries)}" for rule, entries in found.items()))
        return 0
    if asked.lower:
        EXCEPTIONS.write_text(json.dumps(lowered(found, exceptions), indent=2) + "\n")
        return 0
    wrong = list(breaches(found, exceptions))
    print("\n".join(wrong) if wrong else "names: fine")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
