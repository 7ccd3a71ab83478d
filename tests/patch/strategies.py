"""Random objects, configurations and field sets for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tarmac.api.schema import JsonObject
from tarmac.server.patch.elements import key_element, value_element
from tarmac.server.patch.fieldset import FieldSet, of_paths

_names = st.sampled_from(["a", "b", "c"])
_words = st.sampled_from(["", "x", "y z", 'quo"te', "<&>", "é"])
_scalars = st.none() | st.booleans() | st.integers(-2, 100) | _words
json_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)
json_objects: st.SearchStrategy[JsonObject] = st.dictionaries(_names, json_values, max_size=3)

path_elements = st.one_of(
    _names.map(lambda name: "f:" + name),
    st.builds(lambda name, port: key_element({"name": name, "port": port}), _words, st.integers(0, 200)),
    _words.map(value_element),
    st.integers(0, 12).map(lambda index: f"i:{index}"),
)
paths = st.lists(path_elements, min_size=1, max_size=4).map(tuple)
path_sets = st.frozensets(paths, max_size=8)


def field_set(members: frozenset[tuple[str, ...]]) -> FieldSet:
    """The field set of some paths."""
    return of_paths(*members)


_texts = st.sampled_from(["1", "2", "three"])
_parts = st.fixed_dictionaries(
    {"name": st.sampled_from(["p", "q", "r"]), "slot": st.integers(1, 2)},
    optional={"value": _texts, "options": st.dictionaries(_names, _texts, min_size=1, max_size=2)},
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 3),
        "mode": _texts,
        "tags": st.lists(_texts, unique=True, min_size=1, max_size=3),
        "parts": st.lists(_parts, unique_by=lambda part: (part["name"], part["slot"]), min_size=1, max_size=4),
        "steps": st.lists(_texts, max_size=3),
        "labels": st.dictionaries(_names, _texts, min_size=1, max_size=3),
        "whole": st.dictionaries(_names, _texts, min_size=1, max_size=2),
        "free": st.dictionaries(_names, st.integers(0, 2) | st.dictionaries(_names, _texts, min_size=1), min_size=1),
    },
)


def _widget(spec: JsonObject) -> JsonObject:
    widget: JsonObject = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    return {**widget, "spec": spec} if spec else widget


widgets: st.SearchStrategy[JsonObject] = _specs.map(_widget)
"""Configurations of the custom kind of these tests, without empty containers."""
