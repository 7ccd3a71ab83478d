"""Local disks: the PersistentVolume of a claim on its chosen node, and the growth of the volume.

The volume has no storage until the first pod mounts it: then its node creates the image, under its own root directory.
When the volume is deleted, the same node removes the image, and removes the volume's finalizer only afterwards.
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
"""Suffix of the file beside a boot disk that holds the variables of a machine's firmware."""


def volume_name(claim_uid: str) -> str:
    """Return the name of a claim's volume. It is deterministic, so repeated creation is idempotent."""
    return f"pvc-{claim_uid}"


def volume_of(claim: JsonObject, node: str) -> JsonObject:
    """Return the volume that serves a claim on a node."""
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
    """Return True if the volume is a local disk."""
    return (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == LOCAL_DISKS


def size_wanted(claim: JsonObject) -> str:
    """Return the requested size of a claim."""
    return claim["spec"]["resources"]["requests"]["storage"]


def shall_grow(claim: JsonObject, volume: JsonObject) -> bool:
    """Return True if a claim requests more than its volume's capacity."""
    return Quantity.parse(size_wanted(claim)) > Quantity.parse(volume["spec"]["capacity"]["storage"])


def has_grown(claim: JsonObject, volume: JsonObject) -> bool:
    """Return True if the node has grown the disk to the volume's capacity."""
    shown: Any = ((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")
    return Quantity.parse(shown) >= Quantity.parse(volume["spec"]["capacity"]["storage"])


def claims(volume: JsonObject, claim: JsonObject | None) -> bool:
    """Return True if the volume still belongs to the claim of that name."""
    reference = volume["spec"].get("claimRef") or {}
    return claim is not None and claim["metadata"]["uid"] == reference.get("uid")
