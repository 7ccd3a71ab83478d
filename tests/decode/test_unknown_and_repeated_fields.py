"""`fieldValidation`: dropped fields, and the warnings that the client gets."""

from __future__ import annotations

import json

import pytest

from tarmac.api.decode import check_object, decode_object
from tarmac.api.resource import Resource
from tarmac.api.status import BadRequest, Invalid

_CONFIG_MAP = (
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"foo":1,"data":{"a":"1","a":"2"},'
    b'"metadata":{"labels":{"a":"x"},"bar":{}},"zed":null}'
)
_CONFIG_MAP_FINDINGS = [
    'unknown field "foo"',
    'duplicate field "data.a"',
    'duplicate field "metadata"',
    'unknown field "metadata.bar"',
    'unknown field "zed"',
]
_POD = (
    b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"x","foo":1,"name":"y","env":[{"name":"a","val":1}]}],'
    b'"x":1,"Containers":[]}}'
)
_POD_FINDINGS = [
    'unknown field "spec.containers[0].foo"',
    'duplicate field "spec.containers[0].name"',
    'unknown field "spec.containers[0].env[0].val"',
    'unknown field "spec.x"',
    'unknown field "spec.Containers"',
]
_WORKLOAD = (
    b'{"kind":"Workload","apiVersion":"compute.datumapis.com/v1alpha","metadata":{"name":"a"},'
    b'"spec":{"zz":{"k":1,"k":2},"paused":true,"paused":false},"b":1,"metadata":{"name":"a","lab":1}}'
)
_WORKLOAD_FINDINGS = [
    'duplicate field "spec.zz.k"',
    'duplicate field "spec.paused"',
    'duplicate field "metadata"',
    'unknown field "metadata.lab"',
    'unknown field "b"',
    'unknown field "spec.zz"',
]


def test_a_warning_for_each_in_the_order_of_the_text(config_maps: Resource, pods: Resource) -> None:
    assert decode_object(config_maps, _CONFIG_MAP).warnings == _CONFIG_MAP_FINDINGS
    assert decode_object(pods, _POD, "", "Warn").warnings == _POD_FINDINGS


def test_of_our_kinds_repeated_fields_come_first(workloads: Resource) -> None:
    assert decode_object(workloads, _WORKLOAD).warnings == _WORKLOAD_FINDINGS


def test_strict_refuses_with_all_of_them(config_maps: Resource, workloads: Resource) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, _CONFIG_MAP, "", "Strict")
    assert refusal.value.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        + ", ".join(_CONFIG_MAP_FINDINGS)
    )
    with pytest.raises(BadRequest) as refusal:
        decode_object(workloads, _WORKLOAD, "", "Strict")
    assert refusal.value.message.endswith("strict decoding error: " + ", ".join(_WORKLOAD_FINDINGS))


def test_ignore_says_nothing_and_drops_them_all_the_same(config_maps: Resource) -> None:
    decoded = decode_object(config_maps, _CONFIG_MAP, "", "Ignore")
    assert decoded.warnings == []
    assert decoded.obj == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"a": "x"}},  # Go decodes both into one struct
        "data": {"a": "2"},
    }


def test_content_of_unknown_fields_is_ignored(pods: Resource) -> None:
    body = b'{"spec":{"bogus":{"a":1,"a":2,"b":{}}}}'
    assert decode_object(pods, body).warnings == ['unknown field "spec.bogus"']


def test_field_names_are_case_sensitive(config_maps: Resource) -> None:
    assert decode_object(config_maps, b'{"Data":{"a":"b"}}').warnings == ['unknown field "Data"']


@pytest.mark.parametrize("text", ['say \\"hi\\"', "back\\\\slash", "\\u0022", "\\u005c", "\\/", "ä"])
def test_unusual_strings_are_not_taken_for_repeated_keys(config_maps: Resource, text: str) -> None:
    body = f'{{"data":{{"a":"{text}","b":"c"}}}}'
    decoded = decode_object(config_maps, body.encode())
    assert decoded.warnings == []
    assert decoded.obj["data"] == json.loads(body)["data"]


def test_yaml_says_the_line_of_a_repeated_key(config_maps: Resource) -> None:
    body = b"kind: ConfigMap\nfoo: 1\ndata:\n  a: x\n  a: z\n"
    assert decode_object(config_maps, body, "application/yaml").warnings == [
        'line 5: key "a" already set in map',
        'unknown field "foo"',
    ]
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, body, "application/yaml", "Strict")
    assert refusal.value.message.endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 5: key "a" already set in map, unknown field "foo"'
    )


def test_patched_objects_are_held_to_the_same(config_maps: Resource, workloads: Resource) -> None:
    patched = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"bar": 2}, "foo": 1}
    with pytest.raises(Invalid, match=r'strict decoding error: unknown field "metadata\.bar", unknown field "foo"'):
        check_object(config_maps, {**patched, "metadata": {"bar": 2}}, "Strict")
    assert check_object(config_maps, patched, "Warn", ['duplicate field "data.a"']) == [
        'duplicate field "data.a"',
        'unknown field "metadata.bar"',
        'unknown field "foo"',
    ]
    assert patched == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}
    own = {"kind": "Workload", "apiVersion": "compute.datumapis.com/v1alpha", "metadata": {}, "spec": {"u": 1}}
    assert check_object(workloads, own) == ['unknown field "spec.u"']


def test_at_most_a_hundred_are_listed(config_maps: Resource) -> None:
    body = json.dumps({f"f{n}": n for n in range(500)}).encode()
    assert len(decode_object(config_maps, body).warnings) == 100
