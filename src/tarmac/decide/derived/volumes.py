"""The volumes of an instance's Pod, and the claims of its disks.

A disk's claim is named after the instance, and a replacement at the same ordinal has the same name. So the deployment
owns the claim, not the Instance, and the claim survives the replacement of the Instance. A retained disk has no owner.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tarmac.api.compute.instance import Instance, InstanceSpec
from tarmac.api.compute.machineimage import node_image_name
from tarmac.api.compute.names import (
    ANNOTATION_POPULATE_FILESYSTEM,
    ANNOTATION_POPULATE_FROM,
    ANNOTATION_POPULATED_CHECKSUM,
    DEVICE_LINKS,
    STORAGE_CLASS,
    claim_name,
    identity_of,
)
from tarmac.api.compute.validation.machines import OWN_MOUNTS
from tarmac.api.compute.volumes import DiskSource, Volume, VolumeAttachment
from tarmac.api.declare import encode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import OwnerReference
from tarmac.decide.machineimages import NO_IMAGES, Images


def pod_volumes(instance: Instance) -> list[JsonObject]:
    """Return the Pod's `volumes`."""
    return [{"name": volume.name, **_source(instance.metadata.name, volume)} for volume in instance.spec.volumes]


def _source(instance: str, volume: Volume) -> JsonObject:
    if volume.disk is not None:
        return {"persistentVolumeClaim": {"claimName": claim_name(instance, volume.name)}}
    if volume.config_map is not None:
        return {"configMap": encode(volume.config_map)}
    if volume.secret is not None:
        return {"secret": encode(volume.secret)}
    if volume.downward_api is not None:
        return {"downwardAPI": encode(volume.downward_api)}
    memory: JsonObject = {"medium": "Memory"}
    if volume.memory is not None and volume.memory.size_limit is not None:
        memory["sizeLimit"] = str(volume.memory.size_limit)
    return {"emptyDir": memory}


def attachments(attached: Iterable[VolumeAttachment], spec: InstanceSpec, *, machine: bool = False) -> JsonObject:
    """Return a container's `volumeMounts` and `volumeDevices`. A machine always gets its disks as devices."""
    devices = device_names(spec)
    mounts: list[JsonObject] = []
    blocks: list[JsonObject] = []
    for each in attached:
        if each.name in devices and (machine or not each.mount_path):
            blocks.append({"name": each.name, "devicePath": DEVICE_LINKS + devices[each.name]})
        else:
            mounts.append({"name": each.name, "mountPath": each.mount_path or f"{OWN_MOUNTS}/{each.name}"})
    found = {"volumeMounts": mounts, "volumeDevices": blocks}
    return {field: items for field, items in found.items() if items}


def device_names(spec: InstanceSpec) -> dict[str, str]:
    """Return the device name of each disk. Unnamed disks are numbered, skipping names already in use."""
    disks = {volume.name: volume.disk for volume in spec.volumes if volume.disk is not None}
    taken = {disk.device_name for disk in disks.values()}
    free = (name for name in (f"persistent-disk-{number}" for number in itertools.count()) if name not in taken)
    return {name: disk.device_name or next(free) for name, disk in disks.items()}


def claims(instance: Instance, images: Images = NO_IMAGES) -> list[JsonObject]:
    """Return the claims the instance needs, ready to be created. `images` are those of its disks."""
    disks = [(volume.name, volume.disk) for volume in instance.spec.volumes if volume.disk is not None]
    return [_claim(instance, name, disk, images) for name, disk in disks]


def _claim(instance: Instance, volume: str, disk: DiskSource, images: Images) -> JsonObject:
    meta, own = disk.template.metadata, instance.metadata
    owner = next((each for each in own.owner_references if each.controller), None)
    block = not _mounted(instance.spec, volume)
    metadata: JsonObject = {
        "name": claim_name(own.name, volume),
        "namespace": own.namespace,
        "labels": {**(meta.labels if meta else {}), **identity_of(own.labels)},
        "annotations": {**(meta.annotations if meta else {}), **populated(disk, images, own.namespace, block=block)},
        "ownerReferences": [] if owner is None or disk.template.spec.retain else [_belonging(owner)],
    }
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": STORAGE_CLASS,
        "volumeMode": "Block" if block else "Filesystem",
        "resources": {"requests": {"storage": _size(disk, images)}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def populated(disk: DiskSource, images: Images, namespace: str, *, block: bool) -> dict[str, str]:
    """Return annotations for the initial content of a disk. A disk mounted by a container has a filesystem anyway."""
    populator = disk.template.spec.populator
    if populator is None:
        return {}
    if populator.filesystem is not None:
        return {ANNOTATION_POPULATE_FILESYSTEM: populator.filesystem.type} if block else {}
    if populator.image is None:
        return {}
    found = {ANNOTATION_POPULATE_FROM: node_image_name(populator.image.name, namespace)}
    image = images.get(populator.image.name)
    if block and image is not None and image.checksum:
        found[ANNOTATION_POPULATED_CHECKSUM] = image.checksum
    return found


def _belonging(owner: OwnerReference) -> JsonObject:
    """Return a reference without `controller`: the deployment owns the claim, the instance controller manages it."""
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _mounted(spec: InstanceSpec, volume: str) -> bool:
    sandbox = spec.runtime.sandbox
    containers = [*sandbox.containers, *sandbox.init_containers] if sandbox else []
    return any(each.name == volume and each.mount_path for user in containers for each in user.volume_attachments)


def _size(disk: DiskSource, images: Images) -> str:
    stated = disk.template.spec.resources
    if stated is not None and "storage" in stated.requests:
        return str(stated.requests["storage"])
    populator = disk.template.spec.populator
    image = populator.image.name if populator and populator.image else ""
    return str(images[image].size)
