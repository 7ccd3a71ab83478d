"""The generated tables: full published schemas, loaded only where they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tarmac.api.kubernetes.resources import resources
from tarmac.api.kubernetes.servedresources import BODIES
from tarmac.api.schema import Schema, Type
from tarmac.api.tables import is_published, load_schema, type_name
from tools.kubernetes_tables.__main__ import TARGET, up_to_date


def test_the_tables_are_those_of_this_tree() -> None:
    assert up_to_date(), "run `make setup`"
    assert TARGET.is_dir()


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: f"{resource.group}/{resource.plural}")
def test_every_served_resource_has_a_schema(resource: object) -> None:
    schema = resource.schema  # pyright: ignore[reportAttributeAccessIssue] - a Resource; parametrize knows only objects
    assert schema.type is Type.OBJECT
    assert {"apiVersion", "kind"} <= schema.fields.keys()


@pytest.mark.parametrize("body", BODIES, ids="/".join)
def test_every_body_has_a_schema(body: tuple[str, str, str]) -> None:
    assert load_schema(*body).name


def _field(schema: Schema, path: str) -> Schema:
    for step in path.split("."):
        schema = schema.items or schema
        schema = schema.fields[step]
    return schema


def test_merge_rules() -> None:
    pod = load_schema("", "v1", "Pod")
    ports = _field(pod, "spec.containers.ports")
    assert ports.list_type == "map"
    assert ports.list_map_keys == ("containerPort", "protocol")
    assert ports.patch_merge_key == "containerPort"
    assert ports.items is not None
    assert ports.items.fields["protocol"].default == "TCP"
    assert _field(pod, "spec.volumes").patch_strategy == ("merge", "retainKeys")
    assert _field(pod, "metadata.finalizers").list_type == "set"
    assert _field(pod, "spec.tolerations").list_type == "atomic"
    assert _field(load_schema("", "v1", "Service"), "spec.selector").atomic


def test_a_field_may_add_rules_to_a_shared_type() -> None:
    selector = _field(load_schema("policy", "v1", "PodDisruptionBudget"), "spec.selector")
    assert selector.patch_strategy == ("replace",)
    shared = _field(load_schema("", "v1", "Pod"), "spec.topologySpreadConstraints.labelSelector")
    assert shared.patch_strategy == ()
    assert shared.fields is selector.fields


def test_special_scalars() -> None:
    pod = load_schema("", "v1", "Pod")
    limits = _field(pod, "spec.containers.resources.limits")
    assert limits.type is Type.MAP
    assert limits.items is not None
    assert limits.items.type is Type.QUANTITY
    assert _field(pod, "spec.containers.livenessProbe.httpGet.port").type is Type.INT_OR_STRING
    assert _field(pod, "metadata.creationTimestamp").type is Type.TIME
    assert _field(pod, "metadata.managedFields.fieldsV1").type is Type.ANY
    assert _field(load_schema("coordination.k8s.io", "v1", "Lease"), "spec.renewTime").type is Type.MICRO_TIME
    secret = _field(load_schema("", "v1", "Secret"), "data")
    assert secret.items is not None
    assert secret.items.type is Type.BYTES


def test_types_are_shared_between_kinds() -> None:
    assert load_schema("", "v1", "Pod").fields["metadata"] is load_schema("", "v1", "Secret").fields["metadata"]


def test_a_kind_that_is_not_served_has_a_name_but_no_schema() -> None:
    assert type_name("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion") is None
    assert is_published("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion")
    assert is_published("", "v1", "PodList")
    assert not is_published("", "v1", "Foo")
    with pytest.raises(KeyError):
        load_schema("internal.apiserver.k8s.io", "v1alpha1", "StorageVersion")


def test_loading_a_small_kind_does_not_load_pods() -> None:
    program = (
        "from tarmac.api import tables\n"
        "tables.load_schema('', 'v1', 'ConfigMap')\n"
        "assert len(tables._types) < 10, sorted(tables._types)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("kind", "path", "rules"),
    [
        ("Pod", "spec.containers.resources.classes", (Type.MAP, "atomic", None)),
        ("Pod", "spec.initContainers.resources.classes", (Type.MAP, "atomic", None)),
        ("Pod", "spec.resources.classes", (Type.MAP, "atomic", None)),
        ("Pod", "status.resources.classes", (Type.MAP, "atomic", None)),
        ("Pod", "status.containerStatuses.resources.classes", (Type.MAP, "atomic", None)),
        ("Pod", "spec.qosResources", (Type.LIST, "map", "name")),
        ("Node", "status.podClassResources", (Type.LIST, "map", "name")),
        ("Node", "status.containerClassResources.classes", (Type.LIST, "map", "name")),
        ("Node", "status.reservations", (Type.LIST, "atomic", None)),
        ("ResourceQuota", "spec.podClassResources.classes", (Type.LIST, "map", "name")),
        ("ResourceQuota", "status.containerClassResources.classes", (Type.LIST, "map", "name")),
        ("LimitRange", "spec.limits.defaultClasses", (Type.MAP, "atomic", None)),
    ],
)
def test_our_own_fields_are_in_kubernetes_kinds(kind: str, path: str, rules: tuple[Type, str, str | None]) -> None:
    found = _field(load_schema("", "v1", kind), path)
    assert (found.type, found.list_type, found.patch_merge_key) == rules
