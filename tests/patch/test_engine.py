"""The entry point for PATCH requests: content types, bodies, and invalid results."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, UnsupportedMediaType
from tarmac.server.patch import engine
from tests.patch.kinds import CONFIG_MAP, SERVICE, WIDGET

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1"}}


def test_parameters_of_a_content_type_do_not_matter() -> None:
    assert engine.check_type(CONFIG_MAP, "application/merge-patch+json; charset=utf-8") == engine.MERGE_PATCH


def test_custom_kinds_take_no_strategic_merge() -> None:
    assert engine.check_type(CONFIG_MAP, engine.STRATEGIC_PATCH) == engine.STRATEGIC_PATCH
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json-patch"):
        engine.check_type(WIDGET, engine.STRATEGIC_PATCH)


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain"])
def test_other_types_are_not_supported(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        engine.check_type(CONFIG_MAP, content_type)


@pytest.mark.parametrize(
    ("patch_type", "body"),
    [
        (engine.JSON_PATCH, b'[{"op":"add","path":"/data/b","value":"2"}]'),
        (engine.MERGE_PATCH, b'{"data":{"b":"2"}}'),
        (engine.STRATEGIC_PATCH, b'{"data":{"b":"2"}}'),
    ],
)
def test_a_patch_leaves_the_rest_as_it_was(patch_type: str, body: bytes) -> None:
    patched, notes = engine.apply_patch(CONFIG_MAP, patch_type, deepcopy(OBJECT), body)
    assert notes == []
    assert patched["data"] == {"a": "1", "b": "2"}
    assert patched["metadata"] == {"name": "c", "labels": {"l": "1"}}


def test_copied_values_are_independent() -> None:
    body = b'[{"op":"copy","from":"/metadata/labels","path":"/metadata/annotations"}]'
    metadata = engine.apply_patch(CONFIG_MAP, engine.JSON_PATCH, deepcopy(OBJECT), body).obj["metadata"]
    metadata["labels"]["l"] = "changed"
    assert metadata["annotations"] == {"l": "1"}


@pytest.mark.parametrize(
    ("patch_type", "body", "message"),
    [
        (engine.JSON_PATCH, b"[{", "error decoding patch: unexpected end of JSON input"),
        (engine.MERGE_PATCH, b"", "error decoding patch: unexpected end of JSON input"),
        (engine.MERGE_PATCH, b"null", "Invalid JSON Patch"),
        (engine.STRATEGIC_PATCH, b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_bodies_that_are_no_patch(patch_type: str, body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        engine.apply_patch(CONFIG_MAP, patch_type, OBJECT, body)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("patch_type", "body", "notes"),
    [
        (engine.MERGE_PATCH, b'{"data":{"b":"1","b":"2"}}', ['duplicate field "data.b"']),
        (engine.STRATEGIC_PATCH, b'{"data":{"b":"1","b":"2"}}', ['duplicate field "data.b"']),
        (
            engine.JSON_PATCH,
            b'[{"op":"add","path":"/data/b","value":"1"},{"op":"add","path":"/x","path":"/data/b","value":"2","why":1}]',
            ['json patch duplicate field "[1].path"', 'json patch unknown field "[1].why"'],
        ),
        (
            engine.JSON_PATCH,
            b'[{"op":"add","path":"/data/b","value":"2","why":1}]',
            ['json patch unknown field "[0].why"'],
        ),
    ],
)
def test_duplicate_and_unknown_fields_of_a_patch_are_noted(patch_type: str, body: bytes, notes: list[str]) -> None:
    patched = engine.apply_patch(CONFIG_MAP, patch_type, deepcopy(OBJECT), body)
    assert patched.obj["data"] == {"a": "1", "b": "2"}
    assert patched.notes == notes


def test_configurations_come_as_json_or_yaml() -> None:
    assert engine.read_configuration(CONFIG_MAP, b'{"data": {"a": "1"}}') == ({"data": {"a": "1"}}, [])
    assert engine.read_configuration(CONFIG_MAP, b"data:\n  a: '1'\n") == ({"data": {"a": "1"}}, [])
    assert engine.read_configuration(CONFIG_MAP, b"") == ({}, [])


@pytest.mark.parametrize("body", [b'{"data": {"a": "0",\n"a": "1"}}', b"data:\n  a: '0'\n  a: '1'\n"])
def test_configurations_that_say_something_twice(body: bytes) -> None:
    line = 2 if body.startswith(b"{") else 3
    notes = [f'line {line}: key "a" already set in map']
    assert engine.read_configuration(CONFIG_MAP, body) == ({"data": {"a": "1"}}, notes)


@pytest.mark.parametrize("body", [b"- a", b"3", b"a: [", b"{"])
def test_configurations_that_are_none(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^error decoding YAML: "):
        engine.read_configuration(CONFIG_MAP, body)


_MANY = 6_000  # about as much as a body may hold
_PORTS = [{"port": number, "protocol": "TCP"} for number in range(_MANY)]


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"ports": [{"port": number, "name": "x"} for number in reversed(range(_MANY))]}},
        {"spec": {"ports": [{"port": number, "$patch": "delete"} for number in range(_MANY)]}},
        {"spec": {"$setElementOrder/ports": [{"port": number} for number in reversed(range(_MANY))]}},
        {"spec": {"$deleteFromPrimitiveList/externalIPs": [str(-number) for number in range(_MANY)]}},
        {"spec": {"selector": {"$retainKeys": [str(-number) for number in range(_MANY)]}}},
    ],
    ids=["merged", "deleted", "ordered", "taken out", "retained"],
)
def test_long_lists_do_not_keep_others_waiting(patch: JsonObject) -> None:
    spec: dict[str, Any] = {"ports": _PORTS, "externalIPs": [str(number) for number in range(_MANY)]}
    spec["selector"] = {str(number): "x" for number in range(_MANY)}
    began = time.process_time()
    engine.apply_patch(SERVICE, engine.STRATEGIC_PATCH, {"spec": spec}, json.dumps(patch).encode())
    assert time.process_time() - began < 0.5  # proportional to the product of the lengths it would be ten seconds


def test_a_merge_key_can_be_anything() -> None:
    current = {"spec": {"ports": [{"port": {"a": 1}}]}}
    patch = {"spec": {"ports": [{"port": {"a": 1}, "name": "x"}, {"port": [2]}]}}
    patched = engine.apply_patch(SERVICE, engine.STRATEGIC_PATCH, current, json.dumps(patch).encode()).obj
    assert patched["spec"]["ports"] == [{"port": {"a": 1}, "name": "x"}, {"port": [2]}]
