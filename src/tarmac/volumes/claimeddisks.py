"""Resolves a claim to its disk, and checks every precondition for mounting it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from tarmac.api.compute.names import ANNOTATION_POPULATE_FILESYSTEM, ANNOTATION_POPULATE_FROM, DEVICE_LINKS
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.disks import is_local
from tarmac.decide.scheduling import any_of
from tarmac.volumes.content.files import ContentMissing, ContentUnsupported
from tarmac.volumes.interface import Sources
from tarmac.volumes.medium import StoredDisk
from tarmac.volumes.node import VolumeNode


@dataclass(frozen=True, slots=True)
class ClaimedStorage:
    """The storage behind a claim: a disk, or a folder of the host that a pod owns or just uses."""

    claim: JsonObject
    capacity: str
    disk: StoredDisk | None
    folder: str = ""
    owned: bool = False
    # initial content of a new disk: files of a container image, or a virtual machine's operating system
    image: str = ""


def claim_name(pod: JsonObject, volume: JsonObject) -> str:
    """Return the claim that a volume names, or that was made for it."""
    if "persistentVolumeClaim" in volume:
        return volume["persistentVolumeClaim"]["claimName"]
    return f"{pod['metadata']['name']}-{volume['name']}"


async def resolve(pod: JsonObject, volume: JsonObject, sources: Sources, node: VolumeNode) -> ClaimedStorage:
    """Resolve the claim of a volume. Raises ContentMissing, ContentUnsupported, SourceUnavailable."""
    namespace, name = pod["metadata"]["namespace"], claim_name(pod, volume)
    claim = await sources.claim(namespace, name)
    if claim is None:
        raise ContentMissing(f'persistentvolumeclaim "{name}" not found')
    if "ephemeral" in volume and not _made_for(claim, pod):
        raise ContentUnsupported(f'persistentvolumeclaim "{name}" was not created for the pod')
    bound = claim["spec"].get("volumeName")
    if not bound or (claim.get("status") or {}).get("phase") != "Bound":
        raise ContentMissing(f'persistentvolumeclaim "{name}" is not bound yet')
    persistent = await sources.persistent_volume(bound)
    if persistent is None:
        raise ContentMissing(f'persistentvolume "{bound}" not found')
    _check(persistent, claim, node)
    return _behind(persistent, claim, pod, volume["name"])


def _made_for(claim: JsonObject, pod: JsonObject) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)


def _check(persistent: JsonObject, claim: JsonObject, node: VolumeNode) -> None:
    name, spec = persistent["metadata"]["name"], persistent["spec"]
    if (spec.get("claimRef") or {}).get("uid", "") not in ("", claim["metadata"]["uid"]):
        raise ContentMissing(f'persistentvolume "{name}" is bound to another claim')
    required = (spec.get("nodeAffinity") or {}).get("required")
    # A disk is made at its first mount: on the wrong node that would be a second, empty one.
    if required is not None and not any_of(required["nodeSelectorTerms"]).matches(node.name, node.labels):
        raise ContentMissing(f'persistentvolume "{name}" is on another node than "{node.name}"')


def is_machine(pod: JsonObject) -> bool:
    """True if a virtual machine opens the pod's disks."""
    return pod["spec"].get("runtimeClassName") == MACHINE_CLASS


def _behind(persistent: JsonObject, claim: JsonObject, pod: JsonObject, volume: str) -> ClaimedStorage:
    name, spec = persistent["metadata"]["name"], persistent["spec"]
    capacity = str((spec.get("capacity") or {}).get("storage", "0"))
    block = spec.get("volumeMode") == "Block"
    path = (spec.get("local") or spec.get("hostPath") or {}).get("path", "")
    if is_local(persistent) or _is_block_device(path):
        notes = claim["metadata"].get("annotations") or {}
        device = path if _is_block_device(path) else ""
        filesystem = notes.get(ANNOTATION_POPULATE_FILESYSTEM, "") if block else ""
        disk = StoredDisk(name, Quantity.parse(capacity).value(), block, device, filesystem, _label(pod, volume))
        image = notes.get(ANNOTATION_POPULATE_FROM, "")
        if image and (device or (block and not is_machine(pod))):
            raise ContentUnsupported("only a disk with a filesystem of its own can be filled from an image")
        if filesystem not in ("", _FILESYSTEM):
            raise ContentUnsupported(f"disks get {_FILESYSTEM} or nothing, not {filesystem}")
        return ClaimedStorage(claim, capacity, disk, image=image)
    if not path:
        sort = next((key for key in spec if key in _ELSEWHERE), "this")
        raise ContentUnsupported(f"persistent volumes of the kind {sort} are not offered by this node")
    return ClaimedStorage(claim, capacity, None, path, owned="local" in spec)


_FILESYSTEM = "ext4"
_MAX_LABEL = 16


def _label(pod: JsonObject, volume: str) -> str:
    """Return the label by which a guest finds the disk's filesystem: its device name, truncated to fit."""
    for container in pod["spec"].get("containers") or ():
        for each in container.get("volumeDevices") or ():
            if each["name"] == volume:
                return each["devicePath"].removeprefix(DEVICE_LINKS).rpartition("/")[2][:_MAX_LABEL]
    return ""


_ELSEWHERE = ("csi", "nfs", "iscsi", "fc", "cephfs", "rbd", "azureDisk", "awsElasticBlockStore", "gcePersistentDisk")


def _is_block_device(path: str) -> bool:
    try:
        return path.startswith("/") and stat.S_ISBLK(os.stat(path).st_mode)
    except OSError:
        return False
