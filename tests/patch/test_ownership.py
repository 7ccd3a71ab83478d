"""Owners of fields after a value appears, changes or is applied."""

from __future__ import annotations

from hypothesis import given

from tarmac.api.schema import JsonObject
from tarmac.server.patch.comparing import compare
from tarmac.server.patch.fieldset import canonical, difference, intersection, members, union
from tarmac.server.patch.ownership import applied, whole
from tarmac.server.patch.shapes import empty_object, shape_of
from tests.patch.kinds import DEPLOYMENT, POD, WIDGET
from tests.patch.strategies import widgets

SHAPE = shape_of(WIDGET.schema)
HEAD = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


def _spec(**spec: object) -> JsonObject:
    return {**HEAD, "spec": spec}


@given(widgets)
def test_nothing_changes_from_a_value_to_itself(widget: JsonObject) -> None:
    assert compare(SHAPE, widget, widget) == ({}, {})


@given(widgets, widgets)
def test_added_fields_are_removed_in_the_reverse_comparison(old: JsonObject, new: JsonObject) -> None:
    there, back = compare(SHAPE, old, new), compare(SHAPE, new, old)
    assert intersection(there.changed, there.removed) == {}
    # Modified fields change in both directions; all other ones appear on the opposite side.
    modified = intersection(there.changed, back.changed)
    assert difference(there.changed, modified) == back.removed
    assert difference(back.changed, modified) == there.removed


@given(widgets)
def test_creation_is_a_change_from_nothing(widget: JsonObject) -> None:
    created = compare(SHAPE, {}, widget)
    assert created.removed == {}
    assert {".": {}, **created.changed} == whole(SHAPE, widget)


@given(widgets)
def test_an_applier_claims_what_is_there(widget: JsonObject) -> None:
    claim = applied(SHAPE, widget)
    assert difference(claim, whole(SHAPE, widget)) == {}
    # It does not claim some containers, and of those only named ones.
    unclaimed = members(difference(whole(SHAPE, widget), union(claim, {".": {}})))
    assert all(path[-1].startswith("f:") for path in unclaimed)


@given(widgets, widgets)
def test_sets_come_in_canonical_order(old: JsonObject, new: JsonObject) -> None:
    for fields in (compare(SHAPE, old, new).changed, applied(SHAPE, new), compare(SHAPE, {}, new).changed):
        assert repr(fields) == repr(canonical(fields))


def test_named_containers_belong_to_who_adds_them_but_not_to_who_applies_them() -> None:
    widget = _spec(labels={"a": "1"})
    assert compare(SHAPE, HEAD, widget).changed == {"f:spec": {".": {}, "f:labels": {".": {}, "f:a": {}}}}
    assert applied(SHAPE, widget)["f:spec"] == {"f:labels": {"f:a": {}}}


def test_atomic_values_are_owned_as_a_whole() -> None:
    widget = _spec(whole={"a": "1"}, steps=["x"])
    assert applied(SHAPE, widget)["f:spec"] == {"f:steps": {}, "f:whole": {}}
    assert compare(SHAPE, _spec(whole={"b": "1"}, steps=["x"]), widget).changed == {"f:spec": {"f:whole": {}}}


def test_items_are_owned_by_key_and_a_default_stands_for_a_missing_key() -> None:
    claim = applied(SHAPE, _spec(parts=[{"name": "p"}, {"name": "p", "slot": 2}]))
    assert list(claim["f:spec"]["f:parts"]) == ['k:{"name":"p","slot":1}', 'k:{"name":"p","slot":2}']
    moved = compare(SHAPE, _spec(parts=[{"name": "p"}]), _spec(parts=[{"name": "p", "slot": 1}]))
    assert moved.changed == {"f:spec": {"f:parts": {'k:{"name":"p","slot":1}': {"f:slot": {}}}}}


def test_items_that_are_there_twice_are_owned_as_one() -> None:
    twice = [{"name": "p", "value": "1"}, {"name": "p", "value": "2"}]
    element = 'k:{"name":"p","slot":1}'
    changed, removed = compare(SHAPE, _spec(parts=twice[:1]), _spec(parts=twice))
    assert changed == {"f:spec": {"f:parts": {element: {}}}}
    assert removed == {"f:spec": {"f:parts": {element: {".": {}, "f:name": {}, "f:value": {}}}}}
    back = compare(SHAPE, _spec(parts=twice), _spec(parts=twice[:1]))
    assert (back.changed, back.removed) == (removed, changed)
    assert compare(SHAPE, _spec(parts=twice), _spec(parts=twice[::-1])).changed == changed


def test_free_form_fields_are_owned_key_by_key_and_lists_in_them_whole() -> None:
    claim = applied(SHAPE, _spec(free={"a": {"b": [1, 2]}, "c": 1}))
    assert claim["f:spec"]["f:free"] == {"f:a": {".": {}, "f:b": {}}, "f:c": {}}


def test_true_is_not_one_in_free_form_fields() -> None:
    changed = compare(SHAPE, _spec(free={"a": {"b": 1}, "c": [1]}), _spec(free={"a": {"b": True}, "c": [True]})).changed
    # Equal in Python, so only another difference makes this visible.
    different = compare(SHAPE, _spec(size=1, free={"a": 1}), _spec(size=2, free={"a": True})).changed
    assert different == {"f:spec": {"f:free": {"f:a": {}}, "f:size": {}}}
    assert changed == {}


def test_a_free_form_field_that_changes_its_type_is_changed_and_so_is_what_it_held() -> None:
    shrunk = compare(SHAPE, _spec(free={"a": {"b": 1}}), _spec(free={"a": 1}))
    assert shrunk == ({"f:spec": {"f:free": {"f:a": {}}}}, {"f:spec": {"f:free": {"f:a": {"f:b": {}}}}})
    grown = compare(SHAPE, _spec(free={"a": 1}), _spec(free={"a": {"b": 1}}))
    assert grown == ({"f:spec": {"f:free": {"f:a": {".": {}, "f:b": {}}}}}, {})


def test_empty_lists_of_items_claim_nothing_but_empty_objects_and_nulls_do() -> None:
    claim = applied(SHAPE, _spec(parts=[], tags=[], steps=[], labels={}, size=None))
    assert claim["f:spec"] == {"f:labels": {}, "f:size": {}, "f:steps": {}}
    assert "f:spec" not in applied(SHAPE, _spec(parts=[]))


def test_creation_starts_from_what_go_always_writes() -> None:
    assert empty_object(POD.schema) == {"metadata": {}, "spec": {"containers": None}, "status": {}}
    start = empty_object(DEPLOYMENT.schema)
    assert start["spec"]["template"] == {"metadata": {}, "spec": {"containers": None}}
    pod = {**start, "spec": {**start["spec"], "replicas": 1}}
    assert compare(shape_of(DEPLOYMENT.schema), start, pod).changed == {"f:spec": {"f:replicas": {}}}
