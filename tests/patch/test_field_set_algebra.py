"""A field set is a set of paths: its operations are those of sets, for any form of its JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.server.patch import elements, fieldset
from tests.patch.strategies import field_set, path_sets, paths

Paths = frozenset[tuple[str, ...]]


def _members(fields: fieldset.FieldSet) -> Paths:
    found = list(fieldset.members(fields))
    assert len(found) == len(set(found))
    return frozenset(found)


@given(path_sets)
def test_a_set_holds_the_paths_it_was_made_of(members: Paths) -> None:
    assert _members(field_set(members)) == members


@given(path_sets, path_sets)
def test_union_difference_and_intersection_are_those_of_sets(left: Paths, right: Paths) -> None:
    one, other = field_set(left), field_set(right)
    assert _members(fieldset.union(one, other)) == left | right
    assert _members(fieldset.difference(one, other)) == left - right
    assert _members(fieldset.intersection(one, other)) == left & right


@given(path_sets, path_sets)
def test_equal_sets_are_equal_dicts(left: Paths, right: Paths) -> None:
    one, other = field_set(left), field_set(right)
    assert fieldset.union(one, other) == fieldset.union(other, one) == field_set(left | right)
    assert fieldset.difference(one, other) == field_set(left - right)
    assert fieldset.intersection(one, other) == field_set(left & right)


@given(path_sets, path_sets)
def test_recursive_difference_takes_what_lies_below_as_well(left: Paths, right: Paths) -> None:
    kept = {path for path in left if not any(path[: len(prefix)] == prefix for prefix in right)}
    assert _members(fieldset.recursive_difference(field_set(left), field_set(right))) == kept


@given(path_sets, paths)
def test_has_agrees_with_membership(members: Paths, path: tuple[str, ...]) -> None:
    assert fieldset.has(field_set(members), path) == (path in members)


@given(path_sets)
def test_leaves_have_nothing_below_them(members: Paths) -> None:
    leaves = {path for path in members if not any(other != path and other[: len(path)] == path for other in members)}
    assert _members(fieldset.leaves(field_set(members))) == leaves


@given(path_sets)
def test_canonical_field_sets_parse_to_the_same_members(members: Paths) -> None:
    canonical = fieldset.canonical(field_set(members))
    assert _members(canonical) == members
    assert fieldset.parse(canonical) == canonical
    assert list(fieldset.canonical(canonical)) == list(canonical)


@given(st.lists(paths, max_size=8))
def test_order_of_insertion_does_not_show(members: list[tuple[str, ...]]) -> None:
    forwards = fieldset.canonical(fieldset.of_paths(*members))
    backwards = fieldset.canonical(fieldset.of_paths(*reversed(members)))
    assert repr(forwards) == repr(backwards)


def test_elements_are_ordered_as_kubernetes_orders_them() -> None:
    expected = [
        ".",
        "f:a",
        "f:b",
        'k:{"name":"a"}',
        'k:{"name":"a b"}',
        'k:{"port":80,"protocol":"TCP"}',
        'k:{"port":443,"protocol":"TCP"}',
        'k:{"port":443,"protocol":"UDP"}',
        "v:9",
        "v:10",
        'v:"10"',
        'v:"9"',
        "v:false",
        "v:true",
        "i:2",
        "i:10",
    ]
    expected_reversed = expected[::-1]
    assert sorted(expected_reversed, key=elements.order) == expected


def test_spellings_of_one_element_are_one_element() -> None:
    sent = {'k:{ "b": 1, "a": "x" }': {"f:y": {}}, 'k:{"a":"x","b":1.0}': {".": {}, "f:z": {}}}
    assert fieldset.parse(sent) == {'k:{"a":"x","b":1}': {".": {}, "f:y": {}, "f:z": {}}}


def test_elements_from_the_future_are_dropped() -> None:
    assert fieldset.parse({"f:a": {"q:new": {}}, "z:new": {"f:b": {}}}) == {"f:a": {}}


def test_a_set_deeper_than_any_object_is_refused() -> None:
    fields: fieldset.FieldSet = {}
    for _ in range(900):
        fields = {"f:a": fields}
    with pytest.raises(elements.BadElement, match="deeper than any object"):
        fieldset.parse(fields)


@pytest.mark.parametrize("element", ["x", "fa", 'k:{"a"', "k:[1]", "v:", "i:one"])
def test_nonsense_is_refused(element: str) -> None:
    with pytest.raises(elements.BadElement):
        fieldset.parse({element: {}})


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:name"), '.ports[port=80,protocol="TCP"].name'),
        (("f:finalizers", 'v:"a\\u003cb"'), '.finalizers[="a<b"]'),
        (("f:args", "i:3"), ".args[3]"),
    ],
)
def test_paths_read_as_in_conflicts(path: tuple[str, ...], shown: str) -> None:
    assert "".join(elements.display(element) for element in path) == shown
