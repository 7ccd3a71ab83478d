"""Updates are validated like creates, but stored values stay valid when the live system changes."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tests.api.compute.making import GONE, C, P, R, T, World, admitted, causes, edited, errors_of, resource, workload

NOWHERE = World(cities=(), locations=())


def test_an_unchanged_city_stays_when_its_location_is_gone() -> None:
    assert causes(workload(), lookup=NOWHERE, old=workload()) == []


def test_a_new_city_must_exist() -> None:
    new = workload({f"{P}.cityCodes": ["DFW", "LHR"]})
    assert causes(new, lookup=NOWHERE, old=workload()) == [f"NotSupported {P}.cityCodes[1]"]


def test_an_unchanged_location_stays() -> None:
    obj = workload({f"{P}.cityCodes": GONE, f"{P}.locations": [{"name": "dfw"}]})
    assert causes(obj, lookup=NOWHERE, old=obj) == []


def test_an_unchanged_instance_type_stays_when_it_is_disabled_or_gone() -> None:
    for written in ("gone", "acme/vanished"):
        obj = workload({f"{R}.instanceType": written})
        assert causes(obj, lookup=World(), old=obj) == []
        assert causes(obj, lookup=World(), old=workload()) != []


def test_an_unchanged_image_stays() -> None:
    stored = workload({f"{C}[0].image": "nginx"})
    assert causes(stored, old=stored) == []
    assert causes(workload({f"{C}[0].image": "nginx:2"}), old=stored) == [f"Invalid {C}[0].image"]


def test_an_unchanged_grace_period_stays_and_a_new_one_is_at_most_ten_minutes() -> None:
    field = f"{T}.runtime.sandbox.terminationGracePeriodSeconds"
    stored = workload({field: 3600})
    assert causes(stored, old=stored) == []
    assert causes(workload({field: 600}), old=stored) == []
    for seconds in (601, 3601, -1):
        assert causes(workload({field: seconds}), old=stored) == [f"Invalid {field}"]
    [error] = errors_of(stored)
    assert error.detail == "must be between 0 and 600 seconds, inclusive"


def test_static_rules_hold_on_update_too() -> None:
    assert causes(workload({f"{P}.name": "U S"}), old=workload()) == [f"Invalid {P}.name"]


def test_everything_in_the_template_may_change() -> None:
    new = workload({f"{C}[0].image": "ghcr.io/acme/app:2", f"{R}.instanceType": "datumcloud/d1-standard-4"})
    assert causes(new, old=workload()) == []


def test_a_client_cannot_write_status() -> None:
    strategy = resource("Workload").strategy
    created = admitted({**workload(), "status": {"replicas": 5}})
    assert "status" not in created
    updated, stored = {**workload(), "status": {"replicas": 5}}, {**workload(), "status": {"replicas": 1}}
    strategy.prepare_for_update(updated, stored)
    assert updated["status"] == {"replicas": 1}


def deployment(edits: dict[str, Any] | None = None) -> JsonObject:
    spec = workload()["spec"]
    obj = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": "web-dfw-0", "namespace": "default"},
        "spec": {
            "workloadRef": {"name": "web", "uid": "1"},
            "placementName": "us",
            "cityCode": "DFW",
            "template": spec["template"],
            "scaleSettings": spec["placements"][0]["scaleSettings"],
        },
    }
    return edited(obj, edits or {})


def test_a_deployment_keeps_its_identity() -> None:
    assert causes(deployment(), kind="WorkloadDeployment") == []
    moved = deployment({"spec.cityCode": "SEA", "spec.workloadRef.uid": "2", "spec.placementName": "eu"})
    assert causes(moved, kind="WorkloadDeployment", old=deployment()) == [
        "Invalid spec.workloadRef",
        "Invalid spec.placementName",
        "Invalid spec.cityCode",
    ]


def test_a_deployment_can_be_scaled_within_bounds() -> None:
    assert causes(deployment({"spec.replicas": 0}), kind="WorkloadDeployment") == []
    assert causes(deployment({"spec.replicas": 1001}), kind="WorkloadDeployment") == ["Invalid spec.replicas"]


def instance_type(spec: dict[str, Any], name: str = "acme-small") -> JsonObject:
    metadata = {"name": name}
    return {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "InstanceType", "metadata": metadata, "spec": spec}


SMALL = {"resources": {"cpu": "1", "memory": "1Gi"}}
PHASE = "spec.lifecycle.phase"


def test_an_instance_type_has_cpu_and_memory() -> None:
    assert causes(instance_type(SMALL), kind="InstanceType") == []
    broken = instance_type({"resources": {"cpu": "0"}})
    assert causes(broken, kind="InstanceType") == ["Required spec.resources[memory]", "Invalid spec.resources[cpu]"]
    custom = instance_type(SMALL, name="acme-custom")
    assert causes(custom, kind="InstanceType") == ["Forbidden spec.resources"]


def test_an_instance_type_is_born_active_and_only_ages() -> None:
    retired = {"phase": "Deprecated", "replacementInstanceType": "datumcloud-d1-standard-1"}
    old, new = instance_type({**SMALL, "lifecycle": retired}), instance_type(SMALL)
    assert causes(old, kind="InstanceType") == [f"Invalid {PHASE}"]
    assert causes(old, kind="InstanceType", old=new) == []
    assert causes(new, kind="InstanceType", old=old) == [f"Invalid {PHASE}"]
    alone = instance_type({**SMALL, "lifecycle": {"phase": "Disabled"}})
    assert causes(alone, kind="InstanceType", old=new) == ["Required spec.lifecycle.replacementInstanceType"]


def test_the_replacement_of_an_instance_type_exists_and_is_active() -> None:
    def replaced_by(name: str) -> JsonObject:
        return instance_type({**SMALL, "lifecycle": {"phase": "Deprecated", "replacementInstanceType": name}})

    path = "spec.lifecycle.replacementInstanceType"
    old = instance_type(SMALL)
    assert causes(replaced_by("nothing"), kind="InstanceType", lookup=World(), old=old) == [f"NotFound {path}"]
    assert causes(replaced_by("gone"), kind="InstanceType", lookup=World(), old=old) == [f"Invalid {path}"]
    assert causes(replaced_by("acme-small"), kind="InstanceType", lookup=World(), old=old) == [f"Invalid {path}"]
    assert causes(replaced_by("gone"), kind="InstanceType", lookup=World(), old=replaced_by("gone")) == []


def test_the_size_of_an_instance_type_never_changes() -> None:
    bigger = instance_type({"resources": {"cpu": "2", "memory": "1Gi"}})
    assert causes(bigger, kind="InstanceType", old=instance_type(SMALL)) == ["Invalid spec.resources"]


def test_warnings_for_what_is_accepted_but_probably_not_meant() -> None:
    strategy = resource("Workload", World()).strategy
    assert strategy.warnings(admitted(workload()), None) == []
    risky = admitted(workload({f"{C}[0].image": "docker.io/acme/app", f"{R}.instanceType": "old"}))
    latest, deprecated = strategy.warnings(risky, None)
    assert latest.startswith(f'{C}[0].image: "docker.io/acme/app" has no tag')
    assert deprecated.endswith('"old" is deprecated; use datumcloud-d1-standard-1')
