"""The check of names reports each breach once, and its list of exceptions only shrinks."""

from __future__ import annotations

import ast

from tools import names


def _trees(**sources: str) -> dict[str, ast.Module]:
    return {module: ast.parse(source) for module, source in sources.items()}


def test_a_public_class_name_in_two_modules_is_reported_for_both() -> None:
    trees = _trees(
        a="class Pool: ...\nclass _Private: ...", b="class Pool: ...\nclass _Private: ...", c="class Other: ..."
    )
    assert list(names.repeated_classes(trees)) == ["a: Pool", "b: Pool"]


def test_a_file_name_may_appear_three_times_and_role_files_any_number_of_times() -> None:
    three = [f"{folder}/pods.py" for folder in "abc"]
    assert list(names.repeated_files(three)) == []
    assert list(names.repeated_files([*three, "d/pods.py", "e/pods.py"])) == ["pods.py: 4", "pods.py: 5"]
    assert list(names.repeated_files(f"{folder}/controller.py" for folder in "abcdef")) == []


def test_constants_of_limits_use_the_words_of_the_field() -> None:
    trees = _trees(
        a="MOST_PODS = 3\n_PATIENCE: float = 2.0\nMAX_PODS = 3\nALMOST = 1\nPOLL_INTERVAL = 2.0\nmost_pods = 1"
    )
    assert list(names.private_constants(trees)) == ["a: MOST_PODS", "a: _PATIENCE"]


def test_a_word_of_several_meanings_is_a_limit_only_of_a_number() -> None:
    trees = _trees(a='_LOOK = 0.5\nROOM: Final = 4 * 1024\n_WORDS = ("extsvc", "service")\nLEAST = least()\nLOOKS = 3')
    assert list(names.private_constants(trees)) == ["a: _LOOK", "a: ROOM"]


def test_a_test_named_after_a_question_is_reported() -> None:
    source = "async def test_what_is_gone() -> None: ...\ndef test_pods() -> None: ..."
    assert list(names.question_tests({"a": source})) == ["a: test_what_is_gone"]


def test_a_heading_may_be_a_question_but_no_noun_phrase_with_a_question_word() -> None:
    page = "# What is kept\n## Why does it wait?\n```\n# How it is typed\n```\n## How-to guides\n### How nodes join\n"
    assert list(names.question_headings({"a.md": page})) == ["a.md: # What is kept", "a.md: ### How nodes join"]


def test_a_commit_title_is_short_imperative_and_names_a_part_of_the_project() -> None:
    known = names.vocabulary(["class PodWorker: ...\ndef open_store(): ..."])
    good = ["Restart the worker after a timeout", "Speed up the store"]
    assert list(names.title_breaches(good, known)) == []
    bad = ["Restarted the worker", "Mend things", "restart the worker", "Restart the worker " + "x" * 60]
    reasons = [breach.rpartition(": ")[2] for breach in names.title_breaches(bad, known)]
    assert reasons == [
        "begin with a verb in the imperative",
        "name the part of the project that changes",
        "begin with a verb in the imperative",
        "79 characters",
    ]


def test_an_unlisted_breach_and_a_listed_one_that_is_gone_both_fail() -> None:
    found = {"constants": ["a: MOST", "b: EVERY"], "headings": []}
    exceptions = {"constants": ["b: EVERY", "c: AGAIN"]}
    [new, gone] = names.breaches(found, exceptions)
    assert new.startswith("names: constants: a: MOST;")
    assert gone.endswith("run `python -m tools.names --lower`")


def test_lowering_keeps_needed_exceptions_and_adds_none() -> None:
    found = {"constants": ["a: MOST", "b: EVERY"], "headings": []}
    assert names.lowered(found, {"constants": ["b: EVERY", "c: AGAIN"], "headings": ["x"]}) == {
        "constants": ["b: EVERY"]
    }
