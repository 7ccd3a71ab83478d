"""JSON patch follows RFC 6902, except for known differences of Kubernetes, and leaves its input alone."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import jsonpatch  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.status import BadRequest, Invalid, TooLarge
from tarmac.server.patch.jsonpatch import MAX_OPERATIONS, apply_json_patch
from tests.patch.strategies import json_objects, json_values

_steps = st.sampled_from(["a", "b", "c", "0", "1", "-", "new"])
_pointers = st.lists(_steps, min_size=1, max_size=3).map(lambda steps: "".join(f"/{step}" for step in steps))
_operations = st.one_of(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "test"]), "path": _pointers, "value": json_values}),
    st.fixed_dictionaries({"op": st.just("remove"), "path": _pointers}),
    st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": _pointers, "path": _pointers}),
)


def _by_the_rfc(document: Any, patch: list[Any]) -> Any:
    try:
        return jsonpatch.apply_patch(document, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError):
        return None


@given(json_objects, st.lists(_operations, max_size=4))
def test_whatever_the_rfc_allows_gives_the_same_document(document: Any, patch: list[Any]) -> None:
    before = copy.deepcopy((document, patch))
    expected = _by_the_rfc(copy.deepcopy(document), copy.deepcopy(patch))
    if expected is not None and not _moves_into_itself(patch):
        assert apply_json_patch(document, patch) == expected
    assert (document, patch) == before


def _moves_into_itself(patch: list[Any]) -> bool:
    return any(step["op"] == "move" and f"{step['path']}/".startswith(f"{step['from']}/") for step in patch)


@given(json_objects, st.lists(_operations, max_size=4))
def test_a_refused_patch_leaves_no_trace(document: Any, patch: list[Any]) -> None:
    before = copy.deepcopy((document, patch))
    with suppress(Invalid):
        apply_json_patch(document, patch)
    assert (document, patch) == before


def test_copies_do_not_change_together() -> None:
    patch = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 2},
        {"op": "add", "path": "/a/y", "value": 3},
    ]
    assert apply_json_patch({"a": {"x": 1}}, patch) == {"a": {"x": 1, "y": 3}, "b": {"x": 2}}


def test_a_value_of_the_patch_is_not_changed_by_later_steps() -> None:
    value: dict[str, Any] = {"list": []}
    patch = [{"op": "add", "path": "/a", "value": value}, {"op": "add", "path": "/a/list/-", "value": 1}]
    assert apply_json_patch({}, patch) == {"a": {"list": [1]}}
    assert value == {"list": []}


def test_the_document_can_be_replaced_and_tested_as_a_whole() -> None:
    patch = [{"op": "test", "path": "", "value": {"a": 1}}, {"op": "replace", "path": "", "value": {"b": 2}}]
    assert apply_json_patch({"a": 1}, patch) == {"b": 2}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"op": "replace", "path": "/new", "value": 1}], {"l": [1, 2], "new": 1}),
        ([{"op": "remove", "path": "/l/-1"}], {"l": [1]}),
        ([{"op": "add", "path": "/l/-1", "value": 3}], {"l": [1, 2, 3]}),
        ([{"op": "test", "path": "/none", "value": None}], {"l": [1, 2]}),
        ([{"op": "add", "path": "/~01~1", "value": 1}], {"l": [1, 2], "~1/": 1}),
    ],
)
def test_manners_of_kubernetes(patch: list[Any], expected: Any) -> None:
    assert apply_json_patch({"l": [1, 2]}, patch) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/one", "value": True},
        {"op": "test", "path": "/one", "value": 1.0},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "/one/two", "value": 1},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "copy", "path": "/x"},
        {"op": "unknown", "path": "/one"},
        {},
        None,
    ],
)
def test_refusals(operation: Any) -> None:
    with pytest.raises(Invalid):
        apply_json_patch({"one": 1, "l": []}, [operation])


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(TooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1))


def test_copying_cannot_blow_up_a_document() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(Invalid):
        apply_json_patch({"a": ["x" * 1000]}, doubling)


@pytest.mark.parametrize("patch", [{}, "text", 3, ["text"], [{"op": 1, "path": "/a"}]])
def test_malformed_json_patches_are_bad_requests(patch: Any) -> None:
    with pytest.raises(BadRequest, match="error decoding patch: json: cannot unmarshal"):
        apply_json_patch({}, patch)


@pytest.mark.parametrize("index", ["9" * 5000, "-" + "9" * 5000, "2", "-3"])
def test_an_index_that_nothing_has_is_refused_however_long(index: str) -> None:
    with pytest.raises(Invalid, match="the server rejected our request"):
        apply_json_patch({"a": [1, 2]}, [{"op": "replace", "path": f"/a/{index}", "value": 3}])


@pytest.mark.parametrize(
    ("index", "changed"), [("0", [3, 2]), ("1", [1, 3]), ("-1", [1, 3]), ("-2", [3, 2]), ("-0", [3, 2])]
)
def test_negative_indexes_count_from_the_end(index: str, changed: list[int]) -> None:
    patch = [{"op": "replace", "path": f"/a/{index}", "value": 3}]
    assert apply_json_patch({"a": [1, 2]}, patch) == {"a": changed}
