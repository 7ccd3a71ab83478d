"""Local disks: the PersistentVolume that a claim gets on the node that was chosen for it, and what it takes to grow.

The volume is only a promise until the first pod mounts it: then its node makes the image, under its own root folder.
The same node removes the image when the volume is deleted, and takes the volume's finalizer off only then.
"""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE, LOCAL_DISKS
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
RESIZE_PENDING: Final = "FileSystemResizePending"
VARIABLES: Final = ".nvram"
"""How the file beside a boot disk ends that holds what a machine's firmware remembers."""


def volume_name(claim_uid: str) -> str:
    """The volume of a claim; the same however often it is made."""
    return f"pvc-{claim_uid}"


def volume_of(claim: JsonObject, node: str) -> JsonObject:
    """The volume that serves a claim on a node."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = volume_name(metadata["uid"])
    here = {"key": "metadata.name", "operator": "In", "values": [node]}  # hostnames may be shared
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "labels": {LABEL_DISK_NODE: node},
            "annotations": {PROVISIONED_BY: LOCAL_DISKS},
            "finalizers": [DISK_FINALIZER],
        },
        "spec": {
            "capacity": {"storage": size_wanted(claim)},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": f"disks/{name}.img"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [here]}]}},
        },
    }


def is_local(volume: JsonObject) -> bool:
    """Whether a volume is one of these."""
    return (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == LOCAL_DISKS


def size_wanted(claim: JsonObject) -> str:
    """What a claim asks for."""
    return claim["spec"]["resources"]["requests"]["storage"]


def shall_grow(claim: JsonObject, volume: JsonObject) -> bool:
    """Whether a claim asks for more than its volume promises."""
    return Quantity.parse(size_wanted(claim)) > Quantity.parse(volume["spec"]["capacity"]["storage"])


def has_grown(claim: JsonObject, volume: JsonObject) -> bool:
    """Whether the node has made the disk as large as the volume promises."""
    shown: Any = ((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")
    return Quantity.parse(shown) >= Quantity.parse(volume["spec"]["capacity"]["storage"])


def claims(volume: JsonObject, claim: JsonObject | None) -> bool:
    """Whether the volume still belongs to the claim of that name."""
    reference = volume["spec"].get("claimRef") or {}
    return claim is not None and claim["metadata"]["uid"] == reference.get("uid")
