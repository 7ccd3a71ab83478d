"""Volumes of an instance, and their attachments."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.shared import KeyToPath, Labels, ObjectFieldSelector, ResourceList
from tarmac.base.quantity import Quantity


class VolumeAttachment(Struct):
    """A volume in use by a container or a virtual machine."""

    name: Annotated[str, Field("Name of one of the instance's volumes.")]
    mount_path: Annotated[str, Field("Absolute path to mount at. Without it a disk is attached as a block device.")] = (
        ""
    )
    device_name: Annotated[str, Field("Shorthand for the disk's own deviceName; stored there.")] = ""


class ImagePopulator(Struct):
    """Fill the disk with an operating system image."""

    name: Annotated[
        str,
        Field("Name of the image, such as datumcloud/ubuntu-2204-lts; ./os is a LocalMachineImage of the namespace."),
    ]


class FilesystemPopulator(Struct):
    """Make an empty filesystem on the disk."""

    type: Annotated[str, Field("Kind of filesystem: ext4.")]


class DiskPopulator(Struct):
    """Initial content of the disk. At most one of the fields is set."""

    image: Annotated[ImagePopulator | None, Field("An operating system image.")] = None
    filesystem: Annotated[FilesystemPopulator | None, Field("An empty filesystem.")] = None


class DiskResources(Struct):
    """Size of the disk."""

    requests: Annotated[
        ResourceList, Field("`storage`: whole Gi between 10Gi and 100Gi, and no less than the image needs.")
    ] = {}


class DiskSpec(Struct):
    """The spec of a disk."""

    type: Annotated[str, Field("Kind of disk; by default pd-standard.")] = "pd-standard"
    resources: Annotated[DiskResources | None, Field("Size; by default that of the image.")] = None
    populator: Annotated[DiskPopulator | None, Field("Initial content of the disk.")] = None
    retain: Annotated[bool, Field("Keep the disk when its instance is scaled away or the workload is deleted.")] = False


class DiskMeta(Struct):
    """Metadata of the claims made from the template."""

    labels: Annotated[Labels, Field("Labels of each claim.")] = {}
    annotations: Annotated[Labels, Field("Annotations of each claim.")] = {}


class DiskTemplate(Struct, kw_only=True):
    """Template of the disk that each instance gets."""

    metadata: Annotated[DiskMeta | None, Field("Metadata of each instance's claim.")] = None
    spec: Annotated[DiskSpec, Field("The specification of the disk.")]


class DiskSource(Struct, kw_only=True):
    """A persistent disk, one for each instance, that lives through the instance's replacement."""

    device_name: Annotated[
        str, Field("Name under /dev/disk/by-id/datumcloud-*; by default persistent-disk-<n>. [a-z0-9-], at most 60.")
    ] = ""
    template: Annotated[DiskTemplate, Field("Template of the disk.")]


class ConfigMapSource(Struct):
    """Files from a ConfigMap."""

    name: Annotated[str, Field("Name of the ConfigMap.")]
    items: Annotated[list[KeyToPath], Field("Which keys become which files; by default all, by their names.")] = []
    default_mode: Annotated[int | None, Field("Permission bits of the files, 0 to 0777; by default 0644.")] = None
    optional: Annotated[bool, Field("Go on without it when it does not exist.")] = False


class SecretSource(Struct):
    """Files from a Secret."""

    secret_name: Annotated[str, Field("Name of the Secret.")]
    items: Annotated[list[KeyToPath], Field("Which keys become which files; by default all, by their names.")] = []
    default_mode: Annotated[int | None, Field("Permission bits of the files, 0 to 0777; by default 0644.")] = None
    optional: Annotated[bool, Field("Go on without it when it does not exist.")] = False


class DownwardFile(Struct):
    """A field of the instance as a file."""

    path: Annotated[str, Field("Relative path of the file; must not contain '..'.")]
    field_ref: Annotated[ObjectFieldSelector, Field("Which field.")]
    mode: Annotated[int | None, Field("Permission bits of the file, 0 to 0777.")] = None


class DownwardSource(Struct):
    """Files that tell the instance about itself."""

    items: Annotated[list[DownwardFile], Field("The files.")] = []
    default_mode: Annotated[int | None, Field("Permission bits of the files, 0 to 0777; by default 0644.")] = None


class MemorySource(Struct):
    """A filesystem in memory, counted as the instance's memory."""

    size_limit: Annotated[Quantity | None, Field("Maximum size; by default the instance's memory.")] = None


class Volume(Struct):
    """A volume of the instance. Exactly one source is set, and something attaches it."""

    name: Annotated[str, Field("A DNS label, unique in the instance. A disk's claim is named <instance>-<volume>.")]
    disk: Annotated[DiskSource | None, Field("A persistent disk.")] = None
    config_map: Annotated[ConfigMapSource | None, Field("Files from a ConfigMap.")] = None
    secret: Annotated[SecretSource | None, Field("Files from a Secret.")] = None
    downward_api: Annotated[DownwardSource | None, Field("Files about the instance itself.")] = msgspec.field(
        name="downwardAPI", default=None
    )
    memory: Annotated[MemorySource | None, Field("A filesystem in memory.")] = None
