"""Selectors accept Kubernetes' grammar, match by its rules, and return its error messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.selectors import FieldSelector, LabelMatcher

WEB = {"app": "web", "tier": "front", "weight": "5"}

MATCHING = [
    "",
    "app=web",
    "app==web",
    "app",
    "!gone",
    "app in (web,db)",
    "app notin (db)",
    "weight>4",
    "weight<6",
    "x!=y",
]
MORE_MATCHING = ["gone notin (a)", "app=web,tier=front", " app  in ( web ) , tier ", "in!=x", "!in"]
OTHERS = [
    "app=db",
    "gone",
    "!app",
    "app in (db)",
    "app notin (web,db)",
    "weight>5",
    "tier<3",
    "app=web,tier=back",
    "app=",
]


@pytest.mark.parametrize("text", MATCHING + MORE_MATCHING)
def test_selects(text: str) -> None:
    assert LabelMatcher.parse(text).matches(WEB)


@pytest.mark.parametrize("text", OTHERS)
def test_does_not_select(text: str) -> None:
    assert not LabelMatcher.parse(text).matches(WEB)


def test_an_empty_set_holds_the_empty_value() -> None:
    assert LabelMatcher.parse("app in ()").matches({"app": ""})
    assert LabelMatcher.parse("app in (a,,b)").matches({"app": ""})


REFUSED = [
    ("a,", "found '', expected: identifier after ','"),
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ("a=(", "unable to parse requirement: found '(', expected: identifier"),
]


@pytest.mark.parametrize(("text", "complaint"), REFUSED)
def test_says_what_it_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:
        LabelMatcher.parse(text)
    assert str(refusal.value) == complaint


def test_names_the_bad_key_and_the_bad_value() -> None:
    with pytest.raises(
        ValueError, match=r'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key'
    ):
        LabelMatcher.parse("a/b/c=d")
    with pytest.raises(ValueError, match=r'values\[0\]\[a\]: Invalid value: "-": a valid label must be'):
        LabelMatcher.parse("a=-")


def test_selector_objects() -> None:
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["back"]}, {"key": "app", "operator": "Exists"}]
    selector = LabelMatcher.from_object({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert selector.matches(WEB)
    assert str(selector) == "app=web,app,tier notin (back)"
    assert LabelMatcher.from_object({}).everything
    assert not LabelMatcher.from_object(None).matches({})
    with pytest.raises(ValueError, match='"Near" is not a valid label selector operator'):
        LabelMatcher.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_an_exact_label_can_be_asked_for() -> None:
    selector = LabelMatcher.parse("app=web,tier in (front),x!=y")
    assert (selector.exact("app"), selector.exact("tier"), selector.exact("x")) == ("web", "front", None)


def test_parsed_selectors_are_shared() -> None:
    assert LabelMatcher.parse("app=web") is LabelMatcher.parse("app=web")


words = st.sampled_from(["a", "b", "app", "in"])
labels = st.dictionaries(words, words, max_size=4)
requirements = st.builds(lambda key, op, value: f"{key}{op}{value}", words, st.sampled_from(["=", "!="]), words)
selectors = st.lists(requirements, max_size=4).map(",".join)


@given(selectors, selectors, labels)
def test_a_comma_means_and(first: str, second: str, values: dict[str, str]) -> None:
    joined = ",".join(filter(None, [first, second]))
    both = LabelMatcher.parse(first).matches(values) and LabelMatcher.parse(second).matches(values)
    assert LabelMatcher.parse(joined).matches(values) == both


@given(words, st.lists(words, min_size=1, max_size=3), labels)
def test_notin_is_the_opposite_of_in(key: str, members: list[str], values: dict[str, str]) -> None:
    within = LabelMatcher.parse(f"{key} in ({','.join(members)})").matches(values)
    assert within != LabelMatcher.parse(f"{key} notin ({','.join(members)})").matches(values)


@given(selectors, labels)
def test_printed_selectors_match_the_same_labels(text: str, values: dict[str, str]) -> None:
    selector = LabelMatcher.parse(text)
    assert LabelMatcher.parse(str(selector)).matches(values) == selector.matches(values)


def test_field_selectors() -> None:
    selector = FieldSelector.parse("status.phase!=Failed,metadata.name==web")
    assert selector.requirements == [("metadata.name", "=", "web"), ("status.phase", "!=", "Failed")]
    assert selector.matches({"metadata.name": "web"})
    assert not selector.matches({"metadata.name": "web", "status.phase": "Failed"})
    assert FieldSelector.parse(r"a=x\,y\=z\\").matches({"a": "x,y=z\\"})
    assert FieldSelector.parse("").everything
    assert selector.exact("metadata.name") == "web"


BAD_FIELDS = [
    ("a", "invalid selector: 'a'; can't understand 'a'"),
    (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
    ("a=b=c", "invalid field selector: unescaped character in value: 61"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD_FIELDS)
def test_bad_field_selectors(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:
        FieldSelector.parse(text)
    assert str(refusal.value) == complaint
