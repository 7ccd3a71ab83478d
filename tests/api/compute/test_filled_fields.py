"""A Workload needs a name, an image and cities: instance type and network are filled in where they are omitted."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.names import DEFAULT_INSTANCE_TYPE
from tests.api.compute.making import admitted, causes, errors_of, resource

LEAST: dict[str, Any] = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "template": {
            "spec": {"runtime": {"sandbox": {"containers": [{"name": "web", "image": "docker.io/library/nginx:1"}]}}}
        },
        "placements": [{"name": "main", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
    },
}


def spec_of(obj: dict[str, Any]) -> dict[str, Any]:
    return obj["spec"]["template"]["spec"]


def with_spec(**fields: Any) -> dict[str, Any]:
    spec = {**spec_of(LEAST), **fields}
    return {**LEAST, "spec": {**LEAST["spec"], "template": {"spec": spec}}}


def test_the_least_workload_is_accepted_and_stored_in_full() -> None:
    assert causes(LEAST) == []
    stored = spec_of(admitted(LEAST))
    assert stored["runtime"]["resources"] == {"instanceType": DEFAULT_INSTANCE_TYPE}
    assert stored["networkInterfaces"] == [{"name": "eth0", "network": {"name": "default"}}]


def test_defaults_leave_stated_fields_unchanged() -> None:
    runtime = {**spec_of(LEAST)["runtime"], "resources": {"instanceType": "datumcloud/d1-standard-4"}}
    stored = spec_of(admitted(with_spec(runtime=runtime, networkInterfaces=[{"network": "corp"}])))
    assert stored["runtime"]["resources"] == {"instanceType": "datumcloud/d1-standard-4"}
    assert stored["networkInterfaces"][0]["network"] == {"name": "corp"}


def test_an_empty_list_of_interfaces_is_still_refused() -> None:
    assert causes(with_spec(networkInterfaces=[])) == ["Required spec.template.spec.networkInterfaces"]


def test_amounts_without_a_type_name_the_types_that_take_them() -> None:
    runtime = {**spec_of(LEAST)["runtime"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    said = [str(each) for each in errors_of(with_spec(runtime=runtime))]
    assert len(said) == 1
    assert "datumcloud/d1-custom" in said[0]


def test_objects_do_not_share_what_is_filled_in() -> None:
    first, second = admitted(LEAST), admitted(LEAST)
    spec_of(first)["networkInterfaces"][0]["network"]["name"] = "other"
    assert spec_of(second)["networkInterfaces"][0]["network"]["name"] == "default"
    assert spec_of(admitted(LEAST))["networkInterfaces"][0]["network"]["name"] == "default"


def test_the_schema_requires_neither_and_says_what_is_filled_in() -> None:
    template = resource("Workload").schema.fields["spec"].fields["template"].fields["spec"]
    assert "networkInterfaces" not in template.required
    runtime = template.fields["runtime"]
    assert "resources" not in runtime.required
    assert runtime.fields["resources"].fields["instanceType"].default == DEFAULT_INSTANCE_TYPE
