"""The measure of language counts idioms in docstrings, comments and messages, and its figures only shrink."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import words

SOURCE = '''
"""Which module docstring is this."""
# somebody wrote this comment
KEY = "what"
ERROR = "nobody knows what this is"
def read():
    """Whoever calls it."""
'''


def test_docstrings_comments_and_sentences_are_counted_and_short_literals_are_not() -> None:
    tree = ast.parse(SOURCE)
    assert [each.value for each in words.docstrings(tree)] == [
        "Which module docstring is this.",
        "Whoever calls it.",
    ]
    assert list(words.comments(SOURCE)) == ["# somebody wrote this comment"]
    assert list(words.messages(tree)) == ["nobody knows what this is"]


def test_the_rate_is_per_thousand_words() -> None:
    tally = words.Tally()
    tally.add("nobody reads " + "word " * 98)
    assert tally.rate == 10.0


def test_a_small_part_counts_as_longer_than_it_is() -> None:
    tally = words.Tally(min_words=200)
    assert tally.rate == 0.0
    tally.add("nobody reads " + "word " * 98)
    assert tally.rate == 5.0
    tally.add("somebody reads " + "word " * 298)
    assert tally.rate == 5.0


def test_folders_of_tests_are_measured_with_all_their_docstrings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "tests/soak.py": '"""Long tests."""\n',
        "tests/store/deep/test_a.py": SOURCE,
        "tests/store/test_b.py": SOURCE,
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(
        words, "tracked", lambda *patterns: [tmp_path / name for name in files] if patterns == ("tests/*.py",) else []
    )
    (tmp_path / "README.md").write_text("")
    found = words.measure()
    assert {name: value for name, value in found.items() if "tests" in name} == {
        "docstrings of tests": 0.0,
        "docstrings of tests/store": 20.0,
        "questions of tests": 0.0,
        "questions of tests/store": 2.0,
    }


def test_a_part_above_its_figure_is_a_breach_and_one_below_asks_for_a_lower_figure() -> None:
    baseline = {"docstrings of a": 20.0, "questions of a": 2.0}
    assert list(words.breaches({"docstrings of a": 20.3, "questions of a": 2.0}, baseline)) == []
    [worse, more] = words.breaches({"docstrings of a": 21.0, "questions of a": 3.0}, baseline)
    assert worse.startswith("words: docstrings of a: 21, above 20;")
    assert more.startswith("words: questions of a: 3, above 2;")
    [better] = words.breaches({"docstrings of a": 12.0, "questions of a": 2.0}, baseline)
    assert "run `python -m tools.words --lower`" in better
    [new] = words.breaches({"docstrings of b": 6.0}, baseline)
    assert new.startswith("words: docstrings of b: 6, above 5;")


def test_lowering_never_raises_a_figure_and_drops_parts_within_the_limit() -> None:
    baseline = {"docstrings of a": 20.0, "docstrings of b": 9.0}
    found = {"docstrings of a": 25.0, "docstrings of b": 4.0, "docstrings of c": 8.0}
    assert words.lowered(found, baseline) == {"docstrings of a": 20.0, "docstrings of c": 5.0}


def test_comments_and_sentences_of_the_dashboard_are_counted_without_their_placeholders() -> None:
    source = (
        '// who reads it\nconst a = "nobody", b = `${who} ends these pods here`;\n<p title="x">Nobody is here now</p>;'
    )
    assert list(words.dashboard_texts(source)) == ["// who reads it", " ends these pods here", "Nobody is here now"]
