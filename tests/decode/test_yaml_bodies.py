"""YAML as Kubernetes reads it: the rules of YAML 1.1 for plain scalars, then JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.decode.yamltext import parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("y", True), ("On", True), ("TRUE", True), ("no", False), ("n", False), ("off", False),
        ("~", None), ("", None), ("Null", None),
        ("1", 1), ("-7", -7), ("+7", 7), ("0x10", 16), ("010", 8), ("0o17", 15), ("0b11", 3), ("1_000", 1000),
        ("080", 80.0), ("-09", -9.0), ("0_8", 8.0), ("0o9", "0o9"), ("0b2", "0b2"), ("0", 0), ("-0", 0),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("-1.5e-3", -0.0015),
        ("2020-01-01", "2020-01-01"), ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("hello", "hello"), ("1.2.3", "1.2.3"), ("yep", "yep"), ("0x", "0x"), ("_1", "_1"),
        ('"yes"', "yes"), ("'1'", "1"), ("|\n  text", "text\n"), ("!!str 5", "5"),
        ('!!int "5"', 5), ("!!binary aGk=", "hi"),
    ],
)  # fmt: skip
def test_scalars(text: str, value: Any) -> None:
    parsed = parse_yaml(f"a: {text}\n".encode()).value
    assert parsed == {"a": value}
    assert type(parsed["a"]) is type(value)


@pytest.mark.parametrize(("key", "name"), [("1", "1"), ("true", "true"), ("y", "true"), ("1.5", "1.5"), ('"1"', "1")])
def test_keys_become_strings(key: str, name: str) -> None:
    assert parse_yaml(f"{key}: x".encode()).value == {name: "x"}


def test_anchors_are_copied() -> None:
    value = parse_yaml(b"a: &x {b: [1]}\nc: *x\nd:\n  <<: *x\n  e: 2\n").value
    assert value == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1], "e": 2}}
    assert value["a"] is not value["c"]
    assert value["a"]["b"] is not value["d"]["b"]


def test_merged_keys_give_way_to_written_ones() -> None:
    assert parse_yaml(b"a: &x {b: 1, c: 1}\nd:\n  b: 2\n  <<: *x\n").value["d"] == {"b": 2, "c": 1}


def test_an_anchor_can_be_given_again_and_used_as_a_key() -> None:
    assert parse_yaml(b"a: &x one\nb: &x two\n*x : *x\n").value == {"a": "one", "b": "two", "two": "two"}


def test_only_the_first_document_counts() -> None:
    assert parse_yaml(b"a: 1\n---\nb: 2\n").value == {"a": 1}


def test_nothing_is_null() -> None:
    assert parse_yaml(b"").value is None
    assert parse_yaml(b"# only a comment\n").value is None


def test_json_is_yaml() -> None:
    assert parse_yaml(b'{"a": [1, "x", null, true]}').value == {"a": [1, "x", None, True]}
