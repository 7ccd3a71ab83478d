"""Names that the compute kinds share: group, labels, annotations, and how objects made by controllers are called.

A name is only a name: children are found by labels and owner, never by taking a name apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

GROUP = "compute.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

# On WorkloadDeployments, Instances and Pods.
LABEL_WORKLOAD_UID = f"{GROUP}/workload-uid"
LABEL_WORKLOAD_NAME = f"{GROUP}/workload-name"
LABEL_PLACEMENT_NAME = f"{GROUP}/placement-name"
LABEL_DEPLOYMENT_NAME = f"{GROUP}/workload-deployment-name"
LABEL_CITY_CODE = f"{GROUP}/city-code"
LABEL_MOVED_FROM = f"{GROUP}/moved-from"  # only on what stands in for a lost city
# On Instances and Pods.
LABEL_DEPLOYMENT_UID = f"{GROUP}/workload-deployment-uid"
LABEL_INSTANCE_INDEX = f"{GROUP}/instance-index"

IDENTITY_LABELS = (
    LABEL_WORKLOAD_UID,
    LABEL_WORKLOAD_NAME,
    LABEL_PLACEMENT_NAME,
    LABEL_DEPLOYMENT_NAME,
    LABEL_CITY_CODE,
    LABEL_MOVED_FROM,
    LABEL_DEPLOYMENT_UID,
    LABEL_INSTANCE_INDEX,
)
"""What children inherit from the object that they are made for; other labels stay where they are."""

ANNOTATION_SSH_KEYS = f"{GROUP}/ssh-keys"
ANNOTATION_ANYCAST = f"{GROUP}/enable-anycast"
# On claims: the image whose files a new disk starts with.
ANNOTATION_POPULATE_FROM = f"{GROUP}/populate-from-image"
# The sum of a machine's image that the disk was made from, as the catalogue had it then.
ANNOTATION_POPULATED_CHECKSUM = f"{GROUP}/populated-checksum"
# The filesystem that a disk without one of its own, a machine's, starts with.
ANNOTATION_POPULATE_FILESYSTEM = f"{GROUP}/populate-filesystem"
# On Pods of Instances: why no node takes it, as a code of the catalogue of reasons. The Pod's condition says
# `Unschedulable` for all of it, as Kubernetes does.
ANNOTATION_UNSCHEDULABLE = f"{GROUP}/unschedulable-reason"
ANNOTATION_RUNTIME_CLASS = f"{GROUP}/runtime-class"
ANNOTATION_CONSOLE_RECORDING = f"{GROUP}/console-recording"  # of a Namespace: "off" turns it off

# On Pods of virtual machines, as JSON: all that a node must know and a Pod has no field for. Written by the platform
# alone; what a template says under these names is not carried over.
ANNOTATION_CLOUD_INIT = f"{GROUP}/cloud-init"  # {"userData", "networkData"}, those that were given
ANNOTATION_MACHINE_IMAGES = f"{GROUP}/machine-images"  # name as written -> spec of its MachineImage
ANNOTATION_MOUNTS = f"{GROUP}/mounts"  # volume -> mount path, for disks
MACHINE_ANNOTATIONS = (ANNOTATION_CLOUD_INIT, ANNOTATION_MACHINE_IMAGES, ANNOTATION_MOUNTS)
LABEL_ACCELERATOR = f"{GROUP}/machine-accelerator"
"""On a Node that runs virtual machines: `kvm`, or `tcg` where they are emulated."""

FINALIZER = f"{GROUP}/workload-controller"
INSTANCE_FINALIZER = f"{GROUP}/instance-controller"
TYPE_FINALIZER = f"{GROUP}/instance-type-in-use"
IMAGE_FINALIZER = f"{GROUP}/machine-image-in-use"

DEVICE_LINKS = "/dev/disk/by-id/datumcloud-"
"""How the path of a disk begins, in containers and in machines; its device name follows."""

STORAGE_CLASS = "tarmac-local"
"""Class of the disks of Instances: image files on the node where they are first used."""

LOCAL_DISKS = f"{GROUP}/local-disks"
"""Who provisions that class."""

DISK_FINALIZER = f"{GROUP}/local-disk"
"""Keeps a PersistentVolume until its node has removed what is behind it."""

LABEL_DISK_NODE = f"{GROUP}/disk-node"
"""Label of a PersistentVolume: the node that its disk is on."""

GATE_NETWORK = "Network"
GATE_QUOTA = "Quota"

QUOTA_GRANTED = "QuotaGranted"
"""Condition of an Instance: False while the quota's controller has no room for it."""

_WORKLOAD_PART = 30
_HASH_PART = 8
_REVISION_PART = 10


def deployment_name(workload: str, placement: str, city: str, moved_from: str = "") -> str:
    """The WorkloadDeployment of a placement in a city: readable, bounded, and different for each of the three.

    One that stands in for a lost city is another than the city's own.
    """
    parts = (workload, placement, city.upper(), *([moved_from.upper()] if moved_from else ()))
    identity = "\0".join(parts)
    digest = sha256(identity.encode()).hexdigest()[:_HASH_PART]
    return f"{workload[:_WORKLOAD_PART]}-{city.lower()}-{digest}"


def revision_name(workload: str, uid: str, number: int, template_hash: str) -> str:
    """The ControllerRevision that keeps one template of a Workload, and of no other that had its name before."""
    digest = sha256("\0".join((uid, str(number), template_hash)).encode()).hexdigest()[:_REVISION_PART]
    return f"{workload[:_WORKLOAD_PART]}-{digest}"


def instance_name(deployment: str, ordinal: int) -> str:
    """The Instance, and its Pod, at an ordinal."""
    return f"{deployment}-{ordinal}"


def binding_name(deployment: str, interface: int) -> str:
    """The NetworkBinding of a deployment's interface."""
    return f"{deployment}-net-{interface}"


def identity_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that children inherit."""
    return {name: labels[name] for name in IDENTITY_LABELS if name in labels}


def claim_name(instance: str, volume: str) -> str:
    """The claim of an instance's disk. It is the same for every instance that follows at the same ordinal."""
    return f"{instance}-{volume}"
