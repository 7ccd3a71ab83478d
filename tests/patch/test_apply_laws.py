"""Laws of server-side apply, for any configuration."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict
from tarmac.server.patch import managed
from tarmac.server.patch.apply import server_side_apply
from tarmac.server.patch.comparing import compare
from tarmac.server.patch.shapes import shape_of
from tests.patch.kinds import WIDGET
from tests.patch.strategies import widgets

BEFORE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
NOTHING: JsonObject = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


def _apply(
    live: JsonObject | None, config: JsonObject, manager: str = "one", *, force: bool = True, now: str = BEFORE
) -> JsonObject:
    return server_side_apply(WIDGET, live, config, manager, force=force, subresource="", now=now)


def _created(widget: JsonObject, manager: str = "creator") -> JsonObject:
    live = copy.deepcopy(widget)
    managed.for_update(WIDGET, None, live, manager, "", BEFORE)
    return live


def _without_managers(obj: JsonObject) -> JsonObject:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


@given(widgets, widgets)
def test_applying_again_changes_nothing_at_all(live: JsonObject, config: JsonObject) -> None:
    once = _apply(_created(live), config)
    assert _apply(once, config, force=False, now=LATER) == once


@given(widgets, widgets)
def test_applied_values_are_in_the_result(live: JsonObject, config: JsonObject) -> None:
    result = _apply(_created(live), config)
    comparison = compare(shape_of(WIDGET.schema), config, _without_managers(result))
    assert comparison.removed == {}
    # The old state may not change an atomic value or a scalar of the configuration.
    again = compare(shape_of(WIDGET.schema), _without_managers(result), _without_managers(_apply(result, config)))
    assert again == ({}, {})


@given(widgets, widgets)
def test_applying_and_taking_back_restores_what_others_made(live: JsonObject, config: JsonObject) -> None:
    created = _created(live)
    try:
        applied = _apply(created, config, force=False)
    except Conflict:
        return
    restored = _apply(applied, NOTHING, force=False)
    shape = shape_of(WIDGET.schema)
    assert compare(shape, _without_managers(created), _without_managers(restored)) == ({}, {})
    assert restored["metadata"].get("managedFields") == created["metadata"].get("managedFields")


@given(widgets, widgets)
def test_nobody_loses_a_field_without_force(one: JsonObject, two: JsonObject) -> None:
    first = _apply(None, one, "one")
    try:
        both = _apply(first, two, "two", force=False)
    except Conflict:
        return
    assert _entry(both, "one") == _entry(first, "one")


@given(widgets, widgets)
def test_with_force_a_field_changes_hands(one: JsonObject, two: JsonObject) -> None:
    both = _apply(_apply(None, one, "one"), two, "two")
    # Afterwards the two agree: either may apply again the fields it still owns.
    assert _entry(both, "two") == _entry(_apply(None, two, "two"), "two")


@given(widgets, widgets)
def test_nothing_is_changed_in_place(live: JsonObject, config: JsonObject) -> None:
    created = _created(live)
    before = copy.deepcopy((created, config))
    result = _apply(created, config)
    _scribble(result)
    assert (created, config) == before


def _scribble(value: Any) -> None:
    """Change every value in an object, as defaulting might."""
    if isinstance(value, dict):
        for name, item in list(value.items()):
            if name != "managedFields":
                _scribble(item)
        value["scribble"] = 1
    elif isinstance(value, list):
        for item in value:
            _scribble(item)
        value.append("scribble")


def _entry(obj: JsonObject, manager: str) -> Any:
    entries = obj["metadata"].get("managedFields", [])
    return next((entry["fieldsV1"] for entry in entries if entry["manager"] == manager), None)


def test_an_applier_keeps_its_entry_when_the_version_moves() -> None:
    live = _apply(None, {**NOTHING, "spec": {"size": 1}})
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0"
    again = _apply(live, {**NOTHING, "spec": {"size": 1}})
    assert [entry["apiVersion"] for entry in again["metadata"]["managedFields"]] == ["example.com/v1"]


def test_conflicts_are_reported_before_anything_is_merged() -> None:
    live = _created({**NOTHING, "spec": {"size": 1}})
    with pytest.raises(Conflict) as conflict:
        _apply(live, {**NOTHING, "spec": {"size": 2}}, force=False)
    assert conflict.value.message == (
        'Apply failed with 1 conflict: conflict with "creator" using example.com/v1: .spec.size'
    )
    assert live["spec"] == {"size": 1}
