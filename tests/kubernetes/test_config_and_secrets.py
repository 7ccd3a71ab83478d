"""ConfigMaps and Secrets: bounded maps that can be frozen."""

from __future__ import annotations

import base64

import pytest

from tests.kubernetes.rules import complete, refused, refused_fields, updated

FROZEN = "Forbidden: field is immutable when `immutable` is set"


def test_keys_are_file_names() -> None:
    bad = {"data": {"a b": "x", "..": "y"}, "binaryData": {"a b": "eA=="}}
    assert refused_fields("ConfigMap", bad) == [
        ("Invalid", "data[a b]"),
        ("Invalid", "data[..]"),
        ("Invalid", "binaryData[a b]"),
        ("Invalid", "data[a b]"),
    ]


def test_the_size_is_bounded_in_bytes() -> None:
    assert refused("ConfigMap", {"data": {"a": "x" * (1 << 20)}}) == []
    too_long = ["[]: Too long: may not be more than 1048576 bytes"]
    assert refused("ConfigMap", {"data": {"a": "x" * (1 << 20), "b": "y"}}) == too_long
    assert refused("ConfigMap", {"data": {"a": "ä" * (1 << 19), "b": "y"}}) == too_long
    encoded = base64.b64encode(b"x" * (1 << 20)).decode()
    assert refused("Secret", {"data": {"a": encoded}}) == []


def test_a_frozen_config_map_keeps_its_data_and_stays_frozen() -> None:
    old = {"data": {"a": "b"}, "immutable": True}
    assert updated("ConfigMap", old, {"data": {"a": "c"}})[1] == [f"data: {FROZEN}"]
    assert updated("ConfigMap", old, {"immutable": None})[1] == [f"immutable: {FROZEN}"]
    assert updated("ConfigMap", old, {"metadata": {"labels": {"x": "y"}}})[1] == []


def test_string_data_is_written_into_data() -> None:
    made = complete("Secret", {"stringData": {"user": "admin"}, "data": {"user": "b2xk", "other": "eA=="}})
    assert made["data"] == {"user": base64.b64encode(b"admin").decode(), "other": "eA=="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


@pytest.mark.parametrize(
    ("kind", "data", "missing"),
    [
        ("kubernetes.io/tls", {}, ["data[tls.crt]", "data[tls.key]"]),
        ("kubernetes.io/basic-auth", {}, ["data[username]", "data[password]"]),
        ("kubernetes.io/basic-auth", {"password": "eA=="}, []),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]"]),
        ("kubernetes.io/dockerconfigjson", {}, ["data[.dockerconfigjson]"]),
        ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]"]),
        ("example.com/own", {}, []),
    ],
)
def test_a_type_demands_its_keys(kind: str, data: dict[str, str], missing: list[str]) -> None:
    assert refused_fields("Secret", {"type": kind, "data": data}) == [("Required", field) for field in missing]


def test_docker_configuration_is_json_and_never_shown() -> None:
    (error,) = refused("Secret", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}})
    assert error.startswith('data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"')


def test_the_type_stays() -> None:
    old = {"type": "example.com/own"}
    assert updated("Secret", old, {"type": "example.com/other"})[1] == [
        'type: Invalid value: "example.com/other": field is immutable'
    ]
    assert updated("Secret", old, {"type": None})[0]["type"] == "example.com/own", "Opaque is only a default"
