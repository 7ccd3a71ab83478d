"""Merge patch is RFC 7386."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from tarmac.server.patch.engine import apply_merge_patch, without_nulls
from tests.patch.strategies import json_objects, json_values


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [  # the RFC's own examples
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"b": {"c": {"d": None}}}, {"a": "foo", "b": {"c": {}}}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_examples_of_the_rfc(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(document, patch) == result


@given(json_values, json_values)
def test_a_patch_that_is_no_object_replaces(document: Any, patch: Any) -> None:
    if not isinstance(patch, dict):
        assert apply_merge_patch(document, patch) == without_nulls(patch)


@given(json_objects, json_objects)
def test_applying_twice_is_applying_once(document: Any, patch: Any) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once


@given(json_objects, json_objects)
def test_the_patch_wins_and_the_rest_stays(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    merged = apply_merge_patch(document, patch)
    assert {name: merged[name] for name in document if name not in patch} == {
        name: value for name, value in document.items() if name not in patch
    }
    assert not [name for name, value in patch.items() if value is None and name in merged]
    assert (document, patch) == before


@given(json_objects)
def test_an_empty_patch_changes_nothing(document: Any) -> None:
    assert apply_merge_patch(document, {}) == document


@given(json_objects, json_objects)
def test_null_for_every_member_empties_a_document(document: Any, extra: Any) -> None:
    assert apply_merge_patch(document, dict.fromkeys({**document, **extra})) == {}
