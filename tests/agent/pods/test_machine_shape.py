"""A pod of a virtual machine class runs in the shape that the platform writes, and in no other."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.pods.machineshape import machine_check
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.schema import JsonObject


def machine(**spec: Any) -> JsonObject:
    disks = [{"name": "boot", "devicePath": "/dev/disk/by-id/datumcloud-boot"}]
    container = {"name": "machine", "image": "tarmac/tiny", "volumeDevices": disks}
    notes = {ANNOTATION_MACHINE_IMAGES: '{"tarmac/tiny": {}}'}
    metadata = {"name": "m", "namespace": "default", "uid": "u", "annotations": notes}
    return {"metadata": metadata, "spec": {"containers": [container], "runtimeClassName": "vm", **spec}}


def why(pod: JsonObject, handler: str = "vm") -> str:
    found = machine_check(lambda _: handler, "vm")(pod)
    assert found is None or found[0] == "NotAMachine"
    return found[1] if found else ""


def test_a_pod_as_the_platform_writes_it_runs() -> None:
    assert why(machine()) == ""


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"])
def test_a_machine_is_no_part_of_its_node(field: str) -> None:
    assert f"spec.{field} is set" in why(machine(**{field: True}))


def test_a_machine_has_one_container_with_a_disk() -> None:
    one = machine()["spec"]["containers"][0]
    assert "other containers" in why(machine(containers=[one, {**one, "name": "other"}]))
    assert "other containers" in why(machine(initContainers=[one]))
    assert "no disk" in why(machine(containers=[{**one, "volumeDevices": []}]))


@pytest.mark.parametrize("text", [None, "{}", "[]", "no json", '{"tarmac/other": {}}'])
def test_a_machine_whose_image_nobody_vouches_for_is_refused(text: str | None) -> None:
    pod = machine()
    pod["metadata"]["annotations"] = {} if text is None else {ANNOTATION_MACHINE_IMAGES: text}
    assert "does not say what image tarmac/tiny is" in why(pod)


def test_pods_of_other_classes_are_not_asked() -> None:
    assert why({"metadata": {}, "spec": {"hostNetwork": True}}, handler="gvisor") == ""


def test_a_class_that_is_not_known_yet_refuses_nobody() -> None:
    def unknown(_: JsonObject) -> str:
        raise ConfigMissing("no such class")

    assert machine_check(unknown, "vm")(machine(hostNetwork=True)) is None
