"""The part of a Pod that is a virtual machine.

Disks are devices in the order of the attachments, the boot disk first. Other volumes are mounts; one that the guest is
to find by its device alone is mounted below `/.tarmac`, which means just that. What a Pod has no field for is in
annotations: first-boot configuration that stands in the manifest, the images as the catalogue has them now, and where
the guest mounts its disks. First-boot configuration that stands in a Secret stays there, and the Pod mounts it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tarmac.api.compute.instance import Instance, VirtualMachine
from tarmac.api.compute.names import ANNOTATION_CLOUD_INIT, ANNOTATION_MACHINE_IMAGES, ANNOTATION_MOUNTS
from tarmac.api.compute.validation.machines import CLOUD_INIT_VOLUME, MACHINE_GRACE, OWN_MOUNTS
from tarmac.api.declare import encode
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.decide.children.containers import DEFAULT_FILTER, pod_port, probes_of, security_of, stated
from tarmac.decide.children.resources import everything
from tarmac.decide.children.volumes import attachments, device_names
from tarmac.decide.machineimages import Images

MACHINE_CONTAINER: Final = "machine"
_OFTEN = {"periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3}

_encode = msgspec.json.Encoder(order="sorted").encode


def machine_content(instance: Instance, machine: VirtualMachine, whole: ResourceList) -> JsonObject:
    """What the spec of a machine's Pod says beside what every Instance's does."""
    container = {
        "name": MACHINE_CONTAINER,
        "image": _boot_image(instance, machine),
        "imagePullPolicy": "IfNotPresent",
        "stdin": True,
        "tty": True,
        "ports": [pod_port(each) for each in machine.ports],
        "resources": everything(whole),
        **_attached(instance, machine),
        "securityContext": security_of(None),
        **_readiness(machine),
        **probes_of(machine),
    }
    return {
        "runtimeClassName": MACHINE_CLASS,
        "containers": [stated(container)],
        "securityContext": {"seccompProfile": DEFAULT_FILTER},
        "terminationGracePeriodSeconds": MACHINE_GRACE,
    }


def machine_volumes(machine: VirtualMachine) -> list[JsonObject]:
    """Volumes of the Pod that are none of the Instance's."""
    secret = machine.cloud_init.secret_ref if machine.cloud_init is not None else None
    return [] if secret is None else [{"name": CLOUD_INIT_VOLUME, "secret": {"secretName": secret.name}}]


def machine_annotations(instance: Instance, machine: VirtualMachine, images: Images) -> dict[str, str]:
    """What a node must know and a Pod has no field for."""
    cloud_init = machine.cloud_init
    given = {"userData": cloud_init.user_data, "networkData": cloud_init.network_data} if cloud_init else {}
    disks = device_names(instance.spec)
    notes: JsonObject = {
        ANNOTATION_CLOUD_INIT: stated(given),
        ANNOTATION_MACHINE_IMAGES: {name: encode(spec) for name, spec in images.items()},
        ANNOTATION_MOUNTS: {
            each.name: each.mount_path for each in machine.volume_attachments if each.mount_path and each.name in disks
        },
    }
    return {name: _encode(note).decode() for name, note in stated(notes).items()}


def _attached(instance: Instance, machine: VirtualMachine) -> JsonObject:
    found = attachments(machine.volume_attachments, instance.spec, machine=True)
    if machine_volumes(machine):
        mount = {"name": CLOUD_INIT_VOLUME, "mountPath": f"{OWN_MOUNTS}/cloud-init"}
        found["volumeMounts"] = [*found.get("volumeMounts", ()), mount]
    return found


def _readiness(machine: VirtualMachine) -> JsonObject:
    """A machine that has ports is ready when its operating system serves the first of them."""
    port = next((each.port for each in machine.ports if each.protocol == "TCP"), None)
    return {} if port is None else {"readinessProbe": {"tcpSocket": {"port": port}, **_OFTEN}}


def _boot_image(instance: Instance, machine: VirtualMachine) -> str:
    boot = machine.volume_attachments[0].name
    disk = next(volume.disk for volume in instance.spec.volumes if volume.name == boot)
    populator = disk.template.spec.populator if disk else None
    assert populator is not None, "a machine boots from an image"
    assert populator.image is not None, "a machine boots from an image"
    return populator.image.name
