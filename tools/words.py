"""Measures the language of the project: `python -m tools.words` fails when a package reads worse than it did.

Counts free relatives and indefinite pronouns ("what", "whoever", "somebody") per 1,000 words, and docstrings that begin
with a question word: those of modules in `src`, all of them in `tests`. The codebases that we learn from have 0 to 3
per 1,000 words; `MAX_RATE` is ours. Packages above it are listed in `tools/words.json`, and those figures may only
shrink: `--lower` writes lower ones.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tools.cache import ROOT
from tools.house_rules import tracked

MAX_RATE = 5.0
TOLERANCE = 0.5  # one sentence more or less in a small package
MIN_TEST_WORDS = 200  # a folder of tests counts as at least this long, so that one relative clause is no breach
BASELINE = ROOT / "tools" / "words.json"
IDIOM = re.compile(
    r"\b(what|whatever|who|whoever|whom|whose|somebody|nobody|everybody|anybody|others|whichever)\b",
    re.IGNORECASE,
)
QUESTION = re.compile(r"(What|Which|Who|Whether|How|Where|Why)\b")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_MIN_MESSAGE = 4  # words; shorter literals are names and keys
_TYPESCRIPT = re.compile(  # comments, then literals and the text of elements
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|\"(?P<literal>(?:[^\"\\\n]|\\.)*)\"|`(?P<template>[^`]*)`|>(?P<text>[^<>{}=;]+)<",
    re.DOTALL,
)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The docstrings of a module, its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and node.body and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def comments(source: str) -> Iterator[str]:
    """The comments of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def messages(tree: ast.Module) -> Iterator[str]:
    """String literals that are sentences: errors, log lines, help, descriptions of fields."""
    not_messages = {id(each) for each in docstrings(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in not_messages:
            continue
        if len(_WORD.findall(node.value)) >= _MIN_MESSAGE:
            yield node.value


def dashboard_texts(source: str) -> Iterator[str]:
    """Comments of a TypeScript module, and the sentences that its readers see."""
    for found in _TYPESCRIPT.finditer(source):
        text = _PLACEHOLDER.sub("", next(each for each in found.groups() if each is not None))
        if found["comment"] or len(_WORD.findall(text)) >= _MIN_MESSAGE:
            yield text


class Tally:
    """Words and idioms of one part of the project, which counts as at least `min_words` long."""

    def __init__(self, min_words: int = 0) -> None:
        self.words = self.idioms = 0
        self._min_words = min_words

    def add(self, text: str) -> None:
        self.words += len(_WORD.findall(text))
        self.idioms += len(IDIOM.findall(text))

    @property
    def rate(self) -> float:
        """Idioms per 1,000 words."""
        return round(1000 * self.idioms / max(self.words, self._min_words), 1) if self.words else 0.0


def measure() -> dict[str, float]:
    """Each part of the project with its rate; "questions" counts docstrings that begin with a question word."""
    tallies: dict[str, Tally] = {}
    questions: dict[str, int] = {}
    _measure_tests(tallies, questions)
    for path in tracked("src/tarmac/*.py"):
        package = path.relative_to(ROOT / "src" / "tarmac").parts[0]
        source = path.read_text()
        tree = ast.parse(source)
        of_code = tallies.setdefault(f"docstrings of {package}", Tally())
        of_messages = tallies.setdefault(f"messages of {package}", Tally())
        for text in (*(str(each.value) for each in docstrings(tree)), *comments(source)):
            of_code.add(text)
        for text in messages(tree):
            of_messages.add(text)
        begins = QUESTION.match(ast.get_docstring(tree) or "") is not None
        questions[package] = questions.get(package, 0) + begins
    for path in (*tracked("docs/*.md"), ROOT / "README.md"):
        tallies.setdefault(f"docs {_folder(path)}", Tally()).add(_FENCE.sub("", path.read_text()))
    for path in tracked("dashboard/src/*.ts", "dashboard/src/*.tsx"):
        if not path.stem.endswith(".test"):
            for text in dashboard_texts(path.read_text()):
                tallies.setdefault("dashboard", Tally()).add(text)
    found = {name: tally.rate for name, tally in tallies.items()}
    return found | {f"questions of {package}": float(count) for package, count in questions.items()}


def _measure_tests(tallies: dict[str, Tally], questions: dict[str, int]) -> None:
    for path in tracked("tests/*.py"):
        folder = "/".join(path.relative_to(ROOT).parts[:-1][:2])
        source = path.read_text()
        texts = [str(each.value) for each in docstrings(ast.parse(source))]
        tally = tallies.setdefault(f"docstrings of {folder}", Tally(MIN_TEST_WORDS))
        for text in (*texts, *comments(source)):
            tally.add(text)
        begins = sum(QUESTION.match(text.lstrip()) is not None for text in texts)
        questions[folder] = questions.get(folder, 0) + begins


def _folder(path: Path) -> str:
    name = path.relative_to(ROOT)
    return name.parts[1] if len(name.parts) > 2 else name.name


def breaches(found: dict[str, float], baseline: dict[str, float]) -> Iterator[str]:
    """Yield parts that exceed their figure, and figures that can be lowered."""
    for name, value in sorted(found.items()):
        limit = 0.0 if name.startswith("questions") else MAX_RATE
        allowed = max(limit, baseline.get(name, limit))
        if value > allowed + (0 if name.startswith("questions") else TOLERANCE):
            yield f'words: {name}: {value:g}, above {allowed:g}; see "Words" in CONTRIBUTING.md'
        elif value < baseline.get(name, 0.0) - TOLERANCE:
            yield f"words: {name}: {value:g}, below {baseline[name]:g}; run `python -m tools.words --lower`"


def lowered(found: dict[str, float], baseline: dict[str, float] | None) -> dict[str, float]:
    """The figures to keep: those of parts above the limit, none higher than before."""
    kept: dict[str, float] = {}
    for name, value in sorted(found.items()):
        limit = 0.0 if name.startswith("questions") else MAX_RATE
        if value > limit:
            kept[name] = value if baseline is None else min(value, baseline.get(name, limit))
    return kept


def main() -> int:
    """Print every breach, or lower the figures."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--lower", action="store_true", help="write figures that have become lower")
    lower = flags.parse_args().lower
    found = measure()
    baseline: dict[str, float] | None = json.loads(BASELINE.read_text()) if BASELINE.exists() else None
    if lower:
        BASELINE.write_text(json.dumps(lowered(found, baseline), indent=2) + "\n")
        return 0
    wrong = list(breaches(found, baseline or {}))
    print("\n".join(wrong) if wrong else "words: fine")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
