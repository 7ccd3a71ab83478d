"""Type and kind: omission, and the errors for wrong ones, in the words of Kubernetes 1.35."""

from __future__ import annotations

import pytest

from tarmac.api.decode import decode_delete_options, decode_kind, decode_object
from tarmac.api.resource import Resource
from tarmac.api.status import BadRequest, Invalid, UnsupportedMediaType

_UNKNOWN = 'no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"'


@pytest.mark.parametrize("given", [b"{}", b'{"kind":"ConfigMap"}', b'{"apiVersion":"v1"}', b"null"])
def test_kubernetes_own_kinds_may_leave_type_and_kind_out(config_maps: Resource, given: bytes) -> None:
    assert decode_object(config_maps, given).obj == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"apiVersion":"v1","kind":"Secret"}',
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            b'{"apiVersion":"v1","kind":"ConfigMapList"}',
            'ConfigMapList in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion",
        ),
        (
            b'{"apiVersion":"apps/v1","kind":"Deployment"}',
            'Deployment in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        (b'{"apiVersion":"v1","kind":"Foo"}', f'Foo in version "v1" cannot be handled as a ConfigMap: {_UNKNOWN}'),
        (
            b'{"apiVersion":"a/b/c"}',
            "the object provided is unrecognized (must be of type ConfigMap): "
            'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})',
        ),
        (
            b'{"apiVersion":5,"kind":"ConfigMap"}',
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
            "error: json: cannot unmarshal number into Go struct field .apiVersion of type string "
            '({"apiVersion":5,"kind":"Config ...)',
        ),
    ],
)
def test_another_kind_is_refused(config_maps: Resource, body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, body)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"kind":"Workload"}',
            "the API version in the data () does not match the expected API version (compute.datumapis.com/v1alpha)",
        ),
        (
            b'{"kind":"Workload","apiVersion":"v1"}',
            "the API version in the data (v1) does not match the expected API version (compute.datumapis.com/v1alpha)",
        ),
        (
            b'{"apiVersion":"compute.datumapis.com/v1alpha"}',
            "the object provided is unrecognized (must be of type Workload): Object 'Kind' is missing in "
            '\'{"apiVersion":"compute.datumapis.com/v1alpha"}\' ({"apiVersion":"compute.datumap ...)',
        ),
    ],
)
def test_our_kinds_must_say_what_they_are(workloads: Resource, body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(workloads, body)
    assert refusal.value.message == message


def test_another_kind_of_our_group_is_invalid(workloads: Resource) -> None:
    with pytest.raises(Invalid) as refusal:
        decode_object(workloads, b'{"kind":"Bar","apiVersion":"compute.datumapis.com/v1alpha","metadata":{"name":"a"}}')
    assert refusal.value.message == (
        'Bar.compute.datumapis.com "a" is invalid: kind: Invalid value: "Bar": must be Workload'
    )


@pytest.mark.parametrize("name", ["null", "7", "[]", '{"a":1}'])
def test_another_kind_whose_name_is_no_text_is_invalid_as_well(workloads: Resource, name: str) -> None:
    body = f"""{{"kind":"Bar","apiVersion":"compute.datumapis.com/v1alpha","metadata":{{"name":{name}}}}}"""
    with pytest.raises(Invalid, match="kind: Invalid value"):
        decode_object(workloads, body.encode())


def test_an_eviction_of_the_older_version_is_taken() -> None:
    body = b'{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"p"}}'
    assert decode_kind("policy", "v1", "Eviction", body).obj["apiVersion"] == "policy/v1"


@pytest.mark.parametrize("content_type", ["text/plain", "application/cbor", "garbage"])
def test_other_media_types_are_refused(config_maps: Resource, content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json, application/yaml"):
        decode_object(config_maps, b"{}", content_type)


def test_our_kinds_have_no_protobuf(workloads: Resource) -> None:
    with pytest.raises(UnsupportedMediaType):
        decode_object(workloads, b"k8s\x00", "application/vnd.kubernetes.protobuf")


def test_parameters_of_the_media_type_do_not_matter(config_maps: Resource) -> None:
    assert decode_object(config_maps, b"{}", "application/json; charset=utf-8").obj["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b'{"kind":"DeleteOptions","apiVersion":"policy/v1"}',
        b'{"kind":"DeleteOptions","apiVersion":"nope/v7","foo":1}',
    ],
)
def test_delete_options_come_in_any_group_and_version(body: bytes) -> None:
    options = decode_delete_options(body)
    assert options.keys() <= {"kind", "apiVersion"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"kind":"Foo","apiVersion":"v1"}', _UNKNOWN),
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            b'{"gracePeriodSeconds":"x"}',
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
    ],
)
def test_wrong_delete_options(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_delete_options(body)
    assert refusal.value.message == message
