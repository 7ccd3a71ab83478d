"""Protobuf bodies of Go clients are decoded to exactly the JSON that they represent."""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarmac.api.catalog import Catalog
from tarmac.api.decode import decode_delete_options, decode_kind, decode_object
from tarmac.api.decode.media import PROTOBUF
from tarmac.api.kubernetes.extensionfields import OWN_FIELDS
from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type
from tarmac.api.status import BadRequest
from tarmac.api.tables import load_schema
from tests.decode.samples import SAMPLES
from tests.decode.wire import encode_body, field


@pytest.mark.parametrize("plural", SAMPLES)
def test_protobuf_of_kubernetes_decodes_to_its_json(catalog: Catalog, plural: str) -> None:
    group, encoded, meant = SAMPLES[plural]
    resource = catalog.find(group, "v1", plural)
    assert resource is not None
    assert decode_object(resource, b64decode(encoded), PROTOBUF, "Strict").obj == meant


@pytest.mark.parametrize("plural", SAMPLES)
def test_json_of_kubernetes_is_in_normal_form(catalog: Catalog, plural: str) -> None:
    group, _, meant = SAMPLES[plural]
    resource = catalog.find(group, "v1", plural)
    assert resource is not None
    assert decode_object(resource, json.dumps(meant).encode(), "", "Strict").obj == meant


def test_type_and_kind_may_be_left_out(config_maps: Resource) -> None:
    body = encode_body({"kind": "ConfigMap", "data": {"a": "b"}}, header=False)
    assert decode_object(config_maps, body, PROTOBUF).obj["data"] == {"a": "b"}


def test_embedded_structs_become_flat() -> None:
    probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5}
    spec = {"containers": [{"name": "c", "livenessProbe": probe}], "volumes": [{"name": "v", "emptyDir": {}}]}
    decoded = decode_kind("", "v1", "Pod", encode_body({"kind": "Pod", "spec": spec}), PROTOBUF).obj["spec"]
    assert decoded["containers"][0]["livenessProbe"] == probe
    assert decoded["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_bodies_of_subresources_and_reviews() -> None:
    extra = {"example.com/scopes": ["a", "b"]}
    review = {"kind": "SubjectAccessReview", "spec": {"user": "u", "extra": extra}}
    body = encode_body(review, "authorization.k8s.io")
    assert (
        decode_kind("authorization.k8s.io", "v1", "SubjectAccessReview", body, PROTOBUF).obj["spec"]["extra"] == extra
    )
    token = {"kind": "TokenRequest", "spec": {"audiences": ["a"], "expirationSeconds": 600}}
    body = encode_body(token, "authentication.k8s.io")
    decoded = decode_kind("authentication.k8s.io", "v1", "TokenRequest", body, PROTOBUF).obj
    assert decoded["spec"] == {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": None}


def test_delete_options_of_any_group() -> None:
    options = {"kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Orphan"}
    for group in ("", "policy"):
        decoded = decode_delete_options(encode_body(options, group), PROTOBUF)
        assert decoded["gracePeriodSeconds"] == 0
        assert decoded["propagationPolicy"] == "Orphan"


def test_field_numbers_nobody_knows_are_reported_not_lost_silently(config_maps: Resource) -> None:
    newer = b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, field(77, b"new"))
    assert decode_object(config_maps, newer, PROTOBUF).warnings == ["unknown field number 77 in ConfigMap"]
    with pytest.raises(BadRequest, match="strict decoding error: unknown field number 77 in ConfigMap"):
        decode_object(config_maps, newer, PROTOBUF, "Strict")


def _with_metadata(metadata: bytes) -> bytes:
    return b"k8s\x00" + field(2, field(1, metadata))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00garbage", "proto: illegal wireType 7"),
        (b"k8s\x00" + field(2, b"x" * 10)[:-3], "unexpected EOF"),
        (b"k8s\x00\x12" + b"\xff" * 11, "proto: integer overflow"),
        (_with_metadata(field(8, field(1, 1 << 60))), "outside of the years 1 to 9999"),
        (_with_metadata(field(8, field(1, -(1 << 60)))), "outside of the years 1 to 9999"),
        (_with_metadata(field(17, field(7, field(1, b'{"f:\xff":{}}')))), "embedded JSON"),
        (_with_metadata(field(17, field(7, field(1, b"[" * 12_000)))), "embedded JSON"),
    ],
)
def test_malformed_bodies(config_maps: Resource, body: bytes, problem: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, body, PROTOBUF)
    assert problem in refusal.value.message


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_are_read_or_refused_never_crashed_on(pods: Resource, noise: bytes) -> None:
    body = b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, noise)
    with contextlib.suppress(BadRequest):
        decode_object(pods, body, PROTOBUF)


_SCALARS: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: st.text(min_size=1, max_size=5),
    Type.INTEGER: st.integers(-(2**31), 2**31 - 1).filter(bool),
    Type.BOOLEAN: st.just(True),
    Type.QUANTITY: st.sampled_from(["1", "250m", "3Gi", "-2k"]),
    Type.INT_OR_STRING: st.one_of(st.integers(0, 2**31 - 1), st.text(max_size=4)),
    Type.TIME: st.sampled_from(["2020-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]),
    Type.MICRO_TIME: st.just("2020-01-01T00:00:00.000123Z"),
    Type.BYTES: st.sampled_from(["YQ==", "AAEC"]),
    Type.ANY: st.just({"f:a": {}}),
}


@st.composite
def _objects(draw: st.DrawFn, schema: Schema, depth: int = 0) -> dict[str, Any]:
    """Draw objects with a few of the schema's fields, in normal form except for fields that Go always writes."""
    own = {field.name for field in OWN_FIELDS.get(schema.name or "", ())}  # protobuf has no numbers for them
    names = [name for name in schema.fields if name not in ("apiVersion", "kind", *own)]
    chosen = draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names and depth < 7 else []
    return {name: value for name in chosen if (value := draw(_values(schema.fields[name], depth + 1))) is not None}


def _values(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    if schema.type is Type.OBJECT:
        return _objects(schema, depth)
    if schema.items is not None:
        item = _values(schema.items, depth + 1)
        if schema.type is Type.LIST:
            return st.lists(item, min_size=1, max_size=2)
        return st.dictionaries(st.text(max_size=3), item, min_size=1, max_size=2)
    return _SCALARS[schema.type]


@pytest.mark.parametrize(("group", "kind"), [("", "Pod"), ("", "Node"), ("rbac.authorization.k8s.io", "ClusterRole")])
@given(data=st.data())
def test_json_and_protobuf_of_one_object_decode_the_same(group: str, kind: str, data: st.DataObject) -> None:
    obj = {**data.draw(_objects(load_schema(group, "v1", kind))), "kind": kind}
    as_json = decode_kind(group, "v1", kind, json.dumps(obj).encode(), "", "Strict").obj
    as_protobuf = decode_kind(group, "v1", kind, encode_body(obj, group), PROTOBUF, "Strict").obj
    assert as_protobuf == as_json
