"""The part of a Pod that is specific to a virtual machine.

Disks are devices in the order of the attachments, the boot disk first. Other volumes are mounts; a mount below
`/.tarmac` means that the guest finds the volume by its device alone. Annotations hold data without a field in a Pod:
first-boot configuration from the manifest, the images as they are in the catalogue now, and the guest's mount paths of
its disks. First-boot configuration in a Secret stays there, and the Pod mounts it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tarmac.api.compute.instance import Instance, VirtualMachine
from tarmac.api.compute.machineimage import node_image_name
from tarmac.api.compute.names import ANNOTATION_CLOUD_INIT, ANNOTATION_MACHINE_IMAGES, ANNOTATION_MOUNTS
from tarmac.api.compute.validation.machines import CLOUD_INIT_VOLUME, MACHINE_GRACE, OWN_MOUNTS
from tarmac.api.declare import encode
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.decide.derived.containerparts import DEFAULT_FILTER, pod_port, probes_of, security_of, stated
from tarmac.decide.derived.containershares import everything
from tarmac.decide.derived.volumes import attachments, device_names
from tarmac.decide.machineimages import Images

MACHINE_CONTAINER: Final = "machine"
_OFTEN = {"periodSeconds": 2, "successThreshold": 1, "failureThreshold": 3}

_encode = msgspec.json.Encoder(order="sorted").encode


def machine_content(instance: Instance, machine: VirtualMachine, whole: ResourceList) -> JsonObject:
    """Return the fields of a machine's Pod spec beyond those of every Instance."""
    grace = machine.termination_grace_period_seconds
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
        "terminationGracePeriodSeconds": MACHINE_GRACE if grace is None else grace,
    }


def machine_volumes(machine: VirtualMachine) -> list[JsonObject]:
    """Return the volumes of the Pod that are not volumes of the Instance."""
    secret = machine.cloud_init.secret_ref if machine.cloud_init is not None else None
    return [] if secret is None else [{"name": CLOUD_INIT_VOLUME, "secret": {"secretName": secret.name}}]


def machine_annotations(instance: Instance, machine: VirtualMachine, images: Images) -> dict[str, str]:
    """Return the data that a node needs and a Pod has no field for, as annotations."""
    cloud_init = machine.cloud_init
    given = {"userData": cloud_init.user_data, "networkData": cloud_init.network_data} if cloud_init else {}
    disks = device_names(instance.spec)
    notes: JsonObject = {
        ANNOTATION_CLOUD_INIT: stated(given),
        ANNOTATION_MACHINE_IMAGES: {
            node_image_name(name, instance.metadata.namespace): encode(spec) for name, spec in images.items()
        },
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
    """Return a default readiness probe: a machine is ready when its guest accepts connections on its first TCP port."""
    port = next((each.port for each in machine.ports if each.protocol == "TCP"), None)
    return {} if port is None else {"readinessProbe": {"tcpSocket": {"port": port}, **_OFTEN}}


def _boot_image(instance: Instance, machine: VirtualMachine) -> str:
    boot = machine.volume_attachments[0].name
    disk = next(volume.disk for volume in instance.spec.volumes if volume.name == boot)
    populator = disk.template.spec.populator if disk else None
    assert populator is not None, "a machine boots from an image"
    assert populator.image is not None, "a machine boots from an image"
    return node_image_name(populator.image.name, instance.metadata.namespace)
