"""Names that the compute kinds share: group, labels, annotations, and names of objects made by controllers.

Names are never parsed: children are found by labels and owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from tarmac.api import shared

GROUP = shared.COMPUTE_GROUP
API_VERSION = shared.COMPUTE_VERSION

DEFAULT_INSTANCE_TYPE = "datumcloud/d1-standard-2"
"""The type of instances whose template names none."""

# On WorkloadDeployments, Instances and Pods.
LABEL_WORKLOAD_UID = f"{GROUP}/workload-uid"
LABEL_WORKLOAD_NAME = shared.LABEL_WORKLOAD_NAME
LABEL_PLACEMENT_NAME = f"{GROUP}/placement-name"
LABEL_DEPLOYMENT_NAME = f"{GROUP}/workload-deployment-name"
LABEL_CITY_CODE = f"{GROUP}/city-code"
LABEL_MOVED_FROM = f"{GROUP}/moved-from"  # only on replacements for a lost city
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
"""Labels that children inherit from their owner; other labels are not inherited."""

ANNOTATION_SSH_KEYS = f"{GROUP}/ssh-keys"
ANNOTATION_ANYCAST = f"{GROUP}/enable-anycast"
# On claims: the image with the initial files of a new disk.
ANNOTATION_POPULATE_FROM = f"{GROUP}/populate-from-image"
# The checksum of the machine image that the disk was made from, as the catalogue had it then.
ANNOTATION_POPULATED_CHECKSUM = f"{GROUP}/populated-checksum"
# The filesystem to create on a new block disk, as a virtual machine uses it.
ANNOTATION_POPULATE_FILESYSTEM = f"{GROUP}/populate-filesystem"
# On Pods of Instances: the reason why no node accepts it, as a code of the catalogue of reasons. The Pod's condition
# says `Unschedulable` for all reasons, as in Kubernetes.
ANNOTATION_UNSCHEDULABLE = f"{GROUP}/unschedulable-reason"
ANNOTATION_RUNTIME_CLASS = f"{GROUP}/runtime-class"
ANNOTATION_CONSOLE_RECORDING = f"{GROUP}/console-recording"  # on a Namespace: "off" turns it off

# On Pods of virtual machines, as JSON: data for the node that a Pod has no field for. Only the platform writes them;
# annotations of a template under these names are not carried over.
ANNOTATION_CLOUD_INIT = f"{GROUP}/cloud-init"  # {"userData", "networkData"}, if given
ANNOTATION_MACHINE_IMAGES = f"{GROUP}/machine-images"  # name as written -> spec of its MachineImage
ANNOTATION_MOUNTS = f"{GROUP}/mounts"  # volume -> mount path, for disks
MACHINE_ANNOTATIONS = (ANNOTATION_CLOUD_INIT, ANNOTATION_MACHINE_IMAGES, ANNOTATION_MOUNTS)
LABEL_ACCELERATOR = f"{GROUP}/machine-accelerator"
"""On a Node that runs virtual machines: `kvm`, or `tcg` where they are emulated."""
MACHINES_READY = "MachinesReady"
"""Condition of a Node: True if it runs virtual machines; the message has the accelerator, or the cause and a fix."""
GPUS_SANDBOXABLE = "GPUsSandboxable"
"""Condition of a Node with GPUs: sandboxes can use them."""

FINALIZER = f"{GROUP}/workload-controller"
INSTANCE_FINALIZER = f"{GROUP}/instance-controller"
TYPE_FINALIZER = f"{GROUP}/instance-type-in-use"
IMAGE_FINALIZER = f"{GROUP}/machine-image-in-use"

DEVICE_LINKS = "/dev/disk/by-id/datumcloud-"
"""Prefix of the path of a disk, in containers and in machines; its device name follows."""

STORAGE_CLASS = "tarmac-local"
"""Class of the disks of Instances: image files on the node where they are first used."""

LOCAL_DISKS = f"{GROUP}/local-disks"
"""The provisioner of that class."""

DISK_FINALIZER = f"{GROUP}/local-disk"
"""Holds a PersistentVolume until its node has removed the disk."""

LABEL_DISK_NODE = f"{GROUP}/disk-node"
"""Label of a PersistentVolume: the node of its disk."""

GATE_NETWORK = "Network"
GATE_QUOTA = "Quota"

QUOTA_GRANTED = "QuotaGranted"
"""Condition of an Instance: False while the quota's controller has no room for it."""

_WORKLOAD_PART = 30
_HASH_PART = 8
_REVISION_PART = 10


def deployment_name(workload: str, placement: str, city: str, moved_from: str = "") -> str:
    """Return the name of the WorkloadDeployment of a placement in a city: readable, bounded, unique for the three.

    The replacement for a lost city has another name than the city's own deployment.
    """
    parts = (workload, placement, city.upper(), *([moved_from.upper()] if moved_from else ()))
    identity = "\0".join(parts)
    digest = sha256(identity.encode()).hexdigest()[:_HASH_PART]
    return f"{workload[:_WORKLOAD_PART]}-{city.lower()}-{digest}"


def revision_name(workload: str, uid: str, number: int, template_hash: str) -> str:
    """Return the name of the ControllerRevision of one template. The uid tells apart Workloads with the same name."""
    digest = sha256("\0".join((uid, str(number), template_hash)).encode()).hexdigest()[:_REVISION_PART]
    return f"{workload[:_WORKLOAD_PART]}-{digest}"


def instance_name(deployment: str, ordinal: int) -> str:
    """Return the name of the Instance, and of its Pod, at an ordinal."""
    return f"{deployment}-{ordinal}"


def binding_name(deployment: str, interface: int) -> str:
    """Return the name of the NetworkBinding of a deployment's interface."""
    return f"{deployment}-net-{interface}"


def identity_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that children inherit."""
    return {name: labels[name] for name in IDENTITY_LABELS if name in labels}


def claim_name(instance: str, volume: str) -> str:
    """Return the name of the claim of an instance's disk. Later instances at the same ordinal get the same claim."""
    return f"{instance}-{volume}"
