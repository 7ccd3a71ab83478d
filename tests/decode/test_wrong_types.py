"""Values of the wrong type: for Kubernetes' own kinds the first error in Go's words, for ours all as field errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.api.decode import check_object, decode_object
from tarmac.api.resource import Resource
from tarmac.api.status import BadRequest, Invalid

_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _pod(**container: Any) -> bytes:
    return json.dumps({"spec": {"containers": [{"name": "x", **container}]}}).encode()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            {"metadata": {"labels": "x"}},
            "string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        ({"metadata": {"labels": {"a": 5}}}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
        ({"metadata": []}, "array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ({"data": {"a": True}}, "bool into Go struct field ConfigMap.data of type string"),
        ({"binaryData": {"a": 5}}, "number into Go struct field ConfigMap.binaryData of type []uint8"),
        (
            {"metadata": {"generation": 1.5}},
            "number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            {"metadata": {"generation": 10**20}},
            f"number {10**20} into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            {"metadata": {"ownerReferences": [{"controller": "x"}]}},
            "string into Go struct field OwnerReference.metadata.ownerReferences.controller of type bool",
        ),
    ],
)
def test_config_map(config_maps: Resource, body: Any, problem: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, json.dumps(body).encode())
    assert refusal.value.message == (
        f'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal {problem}'
    )


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"command": [1]}, "number into Go struct field Container.spec.containers.command of type string"),
        ({"env": ["x"]}, "string into Go struct field Container.spec.containers.env of type v1.EnvVar"),
        (
            {"imagePullPolicy": 5},
            "number into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            {"ports": [{"containerPort": 3_000_000_000}]},
            "number 3000000000 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 1.5}}},
            "number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            {"env": [{"valueFrom": {"secretKeyRef": {"name": 5}}}]},
            "number into Go struct field "
            "SecretKeySelector.spec.containers.env.valueFrom.secretKeyRef.LocalObjectReference.name of type string",
        ),
    ],
)  # fmt: skip
def test_pod(pods: Resource, container: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(pods, _pod(**container))
    assert refusal.value.message == f'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal {problem}'


@pytest.mark.parametrize("value", ["abc", "", True, {}, []])
def test_unreadable_quantities(pods: Resource, value: Any) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(pods, _pod(resources={"limits": {"cpu": value}}))
    assert refusal.value.message.endswith(f"as a Pod: {_QUANTITY}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc", 'parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"'),
        (
            "2020-01-01T00:00:00",
            'parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
        ),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
        ("2020-02-31T00:00:00Z", 'parsing time "2020-02-31T00:00:00Z": day out of range'),
    ],
)
def test_unreadable_times(config_maps: Resource, text: str, problem: str) -> None:
    body = json.dumps({"metadata": {"creationTimestamp": text}}).encode()
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, body)
    assert refusal.value.message.endswith(f"as a ConfigMap: {problem}")


@pytest.mark.parametrize(
    ("text", "byte"),
    [("%%%", 0), ("YQ", 0), ("aGk=!", 4), ("a=bc", 1), ("ab!d", 2), ("YWJj=", 4), ("====", 0), ("YWJjY", 4),
     ("YWJjYQ=x", 6), ("YQ==YQ==", 4), (" YQ==", 0), ("YQ=", 3), ("é", 0)],
)  # fmt: skip
def test_unreadable_base64(config_maps: Resource, text: str, byte: int) -> None:
    with pytest.raises(BadRequest, match=f"illegal base64 data at input byte {byte}$"):
        decode_object(config_maps, json.dumps({"binaryData": {"a": text}}).encode())


def test_all_wrong_types_of_our_kinds_come_at_once(workloads: Resource) -> None:
    body = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {
            "paused": "no",
            "placements": [{"name": 5, "cityCodes": "DFW", "scaleSettings": {"minReplicas": 1.5}}],
            "template": {"spec": {"runtime": {"resources": {"requests": {"cpu": "lots"}}}}},
        },
    }
    with pytest.raises(Invalid) as refusal:
        decode_object(workloads, json.dumps(body).encode())
    causes = {cause["field"]: cause for cause in (refusal.value.details or {})["causes"]}
    wrong = {
        "spec.paused": ("string", "boolean"),
        "spec.placements[0].name": ("integer", "string"),
        "spec.placements[0].cityCodes": ("string", "array"),
        "spec.placements[0].scaleSettings.minReplicas": ("number", "integer"),
    }
    assert {field: cause["message"] for field, cause in causes.items()} == {
        **{
            field: f'Invalid value: "{given}": {field} in body must be of type {wanted}: "{given}"'
            for field, (given, wanted) in wrong.items()
        },
        "spec.template.spec.runtime.resources.requests.cpu": f'Invalid value: "lots": {_QUANTITY}',
    }
    assert causes["spec.paused"]["reason"] == "FieldValueTypeInvalid"


def test_metadata_of_our_kinds_is_decoded_as_go_decodes_it(workloads: Resource) -> None:
    body = b'{"apiVersion":"compute.datumapis.com/v1alpha","kind":"Workload","metadata":{"labels":{"a":5}}}'
    with pytest.raises(BadRequest) as refusal:
        decode_object(workloads, body)
    assert refusal.value.message == (
        'Workload in version "v1alpha" cannot be handled as a Workload: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


def test_a_patch_that_makes_a_wrong_type_is_invalid(config_maps: Resource) -> None:
    patched = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"a": 5}}
    with pytest.raises(Invalid) as refusal:
        check_object(config_maps, patched)
    (cause,) = (refusal.value.details or {})["causes"]
    assert cause["field"] == "patch"
    assert refusal.value.message.startswith(' "" is invalid: patch: Invalid value: "{\\"apiVersion\\"')
    assert cause["message"].endswith("cannot unmarshal number into Go struct field ConfigMap.data of type string")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"kind": "Secret"}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ({"kind": "Foo"}, 'no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"'),
    ],
)
def test_a_patch_cannot_change_the_kind(config_maps: Resource, changed: dict[str, Any], problem: str) -> None:
    patched = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, **changed}
    with pytest.raises(Invalid) as refusal:
        check_object(config_maps, patched)
    assert refusal.value.message.endswith(f": {problem}")


def test_a_patch_cannot_change_what_our_kinds_are(workloads: Resource) -> None:
    patched = {"apiVersion": "v1", "kind": "Workload", "metadata": {"name": "p"}}
    with pytest.raises(Invalid, match=r'apiVersion: Invalid value: "v1": must be compute\.datumapis\.com/v1alpha'):
        check_object(workloads, patched)


def test_a_patch_that_breaks_our_metadata_is_invalid(workloads: Resource) -> None:
    patched = {"apiVersion": workloads.api_version, "kind": "Workload", "metadata": {"labels": "x"}}
    with pytest.raises(Invalid) as refusal:
        check_object(workloads, patched)
    assert refusal.value.message.endswith("Go struct field ObjectMeta.labels of type map[string]string")
    assert (refusal.value.details or {})["causes"][0]["field"] == "patch"
