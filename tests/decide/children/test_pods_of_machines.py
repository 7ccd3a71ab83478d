"""The Pod of a virtual machine contains everything that a node needs to know."""

from __future__ import annotations

import json
from typing import Any

from tarmac.api.catalog import build_catalog
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.machineimage import MachineImage, MachineImageSpec
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity
from tarmac.decide.derived.pods import pod_of
from tarmac.decide.derived.requiredsources import ObjectSource, sources
from tarmac.decide.derived.volumes import claims
from tarmac.decide.machineimages import images_of
from tests.decide.children.test_pods_of_instances import WHOLE, container, instance

NAME = "datumcloud/ubuntu-2204-lts"
SPEC: JsonObject = {
    "size": "25Gi",
    "format": "qcow2",
    "source": {"url": "https://example.com/jammy.img"},
    "checksum": "sha256:" + "0" * 64,
}
IMAGES = {NAME: decode(MachineImage, {"metadata": {"name": "x"}, "spec": SPEC}).spec}
BOOT: JsonObject = {"name": "boot", "disk": {"template": {"spec": {"populator": {"image": {"name": NAME}}}}}}
GROUP = "compute.datumapis.com"


def data(name: str) -> JsonObject:
    disk = {"populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}}}
    return {"name": name, "disk": {"deviceName": f"dev-{name}", "template": {"spec": disk}}}


def machine(*volumes: JsonObject, attached: list[JsonObject] | None = None, **fields: Any) -> Instance:
    attachments = attached or [{"name": each["name"]} for each in volumes]
    runtime = {"virtualMachine": {"volumeAttachments": [{"name": "boot"}, *attachments], **fields}}
    given = {
        f"{GROUP}/ssh-keys": "ubuntu:ssh-ed25519 AAAA",
        f"{GROUP}/machine-images": "forged",
        f"{GROUP}/mounts": "x",
    }
    return instance(runtime=runtime, volumes=[*volumes, BOOT], annotations=given)


def pod(made: Instance) -> JsonObject:
    return pod_of(made, WHOLE, IMAGES)


def only(made: Instance) -> JsonObject:
    (found,) = pod(made)["spec"]["containers"]
    return found


def notes(made: Instance) -> JsonObject:
    annotations = pod(made)["metadata"]["annotations"]
    return {name: json.loads(annotations[f"{GROUP}/{name}"]) for name in ("cloud-init", "machine-images", "mounts")
            if f"{GROUP}/{name}" in annotations}  # fmt: skip


def test_a_machine_is_one_container_with_a_terminal_and_its_disks_as_devices_in_order() -> None:
    made = machine(data("logs"), data("data"), attached=[{"name": "data"}, {"name": "logs"}])
    spec, found = pod(made)["spec"], only(made)
    assert (spec["runtimeClassName"], spec["terminationGracePeriodSeconds"]) == ("vm", 60)
    for seconds in (0, 600):
        told = pod(machine(terminationGracePeriodSeconds=seconds))["spec"]
        assert told["terminationGracePeriodSeconds"] == seconds
    assert (found["name"], found["image"], found["imagePullPolicy"]) == ("machine", NAME, "IfNotPresent")
    assert found["stdin"] is found["tty"] is True
    devices = [each["devicePath"].rpartition("/")[2] for each in found["volumeDevices"]]
    assert devices == ["datumcloud-persistent-disk-0", "datumcloud-dev-data", "datumcloud-dev-logs"]


def test_the_boot_disk_is_as_large_as_its_image_and_says_which_it_is() -> None:
    data_claim, boot = claims(machine(data("data")), IMAGES)
    assert boot["spec"]["resources"]["requests"] == {"storage": "25Gi"}
    made_from = {f"{GROUP}/populate-from-image": NAME, f"{GROUP}/populated-checksum": SPEC["checksum"]}
    assert boot["metadata"]["annotations"] == made_from
    assert data_claim["metadata"]["annotations"] == {f"{GROUP}/populate-filesystem": "ext4"}
    assert (data_claim["spec"]["volumeMode"], boot["spec"]["volumeMode"]) == ("Block", "Block")


def test_volumes_of_files_are_mounted_and_without_a_path_get_a_default() -> None:
    settings, keys = {"name": "settings", "configMap": {"name": "a"}}, {"name": "keys", "secret": {"secretName": "b"}}
    made = machine(settings, keys, attached=[{"name": "settings", "mountPath": "/etc/app"}, {"name": "keys"}])
    mounts = [(each["name"], each["mountPath"]) for each in only(made)["volumeMounts"]]
    assert mounts == [("settings", "/etc/app"), ("keys", "/.tarmac/keys")]
    assert notes(made).get("mounts") is None, "the guest reads them from the mounts"


def test_the_images_are_in_the_pod_as_the_catalogue_has_them_and_nobody_else_writes_them() -> None:
    assert notes(machine()) == {"machine-images": {NAME: SPEC}}
    keys = pod(machine())["metadata"]["annotations"][f"{GROUP}/ssh-keys"]
    assert keys == "ubuntu:ssh-ed25519 AAAA"
    plain = pod_of(instance(container(), annotations={f"{GROUP}/machine-images": "forged"}), WHOLE)
    assert plain["metadata"]["annotations"] == {}


def test_mount_paths_of_disks_are_for_the_guest() -> None:
    made = machine(data("logs"), data("raw"), attached=[{"name": "logs", "mountPath": "/var/log/app"}, {"name": "raw"}])
    assert notes(made)["mounts"] == {"logs": "/var/log/app"}
    assert "volumeMounts" not in only(made)


def test_cloud_init_is_inline_or_stays_in_its_secret() -> None:
    made = machine(cloudInit={"userData": "#cloud-config\n{}\n"})
    assert notes(made)["cloud-init"] == {"userData": "#cloud-config\n{}\n"}
    secret = machine(cloudInit={"secretRef": {"name": "init"}})
    assert "cloud-init" not in notes(secret)
    assert pod(secret)["spec"]["volumes"][-1] == {"name": "tarmac-cloud-init", "secret": {"secretName": "init"}}
    assert only(secret)["volumeMounts"] == [{"name": "tarmac-cloud-init", "mountPath": "/.tarmac/cloud-init"}]
    assert list(sources(secret.spec)) == [ObjectSource("Secret", "init")]


def test_ready_is_when_the_first_port_answers_unless_the_manifest_says_otherwise() -> None:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "ssh", "port": 22}, {"name": "web", "port": 80}]
    often = {"periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3}
    assert only(machine(ports=ports))["readinessProbe"] == {"tcpSocket": {"port": 22}, **often}
    assert "readinessProbe" not in only(machine())
    assert "readinessProbe" not in only(machine(ports=ports[:1]))
    own = {"httpGet": {"port": "web", "path": "/up"}}
    found = only(machine(ports=ports, readinessProbe=own, livenessProbe={"tcpSocket": {"port": 80}}))
    assert (found["readinessProbe"], found["livenessProbe"]) == (own, {"tcpSocket": {"port": 80}})


def test_a_server_takes_the_pod() -> None:
    settings = {"name": "settings", "configMap": {"name": "a"}}
    made = machine(data("data"), settings, ports=[{"name": "ssh", "port": 22}], cloudInit={"secretRef": {"name": "b"}})
    pods = build_catalog().find("", "v1", "pods")
    assert pods is not None
    obj = pod(made)
    pods.strategy.default(obj)
    pods.strategy.prepare_for_create(obj)
    errors = FieldErrors()
    pods.strategy.validate(obj, errors)
    assert [str(error) for error in errors] == []


def image(**spec: Any) -> MachineImage:
    return decode(MachineImage, {"metadata": {"name": "x"}, "spec": {**SPEC, **spec}})


def test_a_machine_waits_for_an_image_that_has_a_source_and_a_sandbox_needs_only_its_size() -> None:
    missing = images_of(machine().spec, lambda name: None).refusals[0]
    assert (missing.reason, missing.rule, missing.where) == ("ImageUnavailable", "image", "datumcloud-ubuntu-2204-lts")
    unknown = images_of(machine().spec, lambda name: image(source=None)).refusals[0]
    assert unknown.change == "Set spec.source and spec.checksum of MachineImage datumcloud-ubuntu-2204-lts."
    assert images_of(machine().spec, lambda name: image()).value == {NAME: image().spec}
    plain = instance(container(), volumes=[BOOT])
    found = images_of(plain.spec, lambda name: image(source=None)).value
    assert found is not None
    assert isinstance(found[NAME], MachineImageSpec)
    assert found[NAME].size == Quantity.parse("25Gi")
