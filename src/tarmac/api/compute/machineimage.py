"""MachineImage: operating systems that virtual machines boot, and the built-in catalogue of them.

An image is known before it can be had: one without a `source` may be named in manifests, and the instances that name
it wait until somebody says where its file is. Nothing about an image is guessed: its format, its size and the sum of
its file are what the object says, and a node refuses a file that is anything else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.compute.instancetype import Phase
from tarmac.api.compute.names import API_VERSION
from tarmac.api.declare import Field, Struct
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Conditions, Kind, ObservedGeneration, Time
from tarmac.base.quantity import Quantity

File = Annotated[
    str,
    Field("Name of a file in the node's folder of machine images; letters, digits, dots, dashes and underscores."),
]
Url = Annotated[str, Field("Where nodes fetch the file: an address that begins with http:// or https://.")]
Checksum = Annotated[str, Field("sha256:<64 hex digits> of the file as it is fetched, before it is unpacked.")]


class ImageSource(Struct):
    """Where the file is. Exactly one of the fields is set."""

    file: File = ""
    url: Url = ""


class BootFile(Struct):
    """A kernel or an initial filesystem. Exactly one of file and url is set."""

    file: File = ""
    url: Url = ""
    checksum: Checksum = ""


class DirectBoot(Struct):
    """Boot a kernel that lies beside the image, not one that is in it."""

    kernel: Annotated[BootFile, Field("The kernel.")]
    initrd: Annotated[BootFile | None, Field("The initial filesystem; by default none.")] = None
    command_line: Annotated[str, Field("What the kernel is told.", max_length=2048)] = ""


class ImageLifecycle(Struct):
    """Whether the image may still be used."""

    phase: Annotated[
        Phase, Field("Moves forward only: Active, Deprecated (still works, warns), Disabled.", stored=True)
    ] = "Active"
    replacement_machine_image: Annotated[str, Field("What to use instead; required once not Active.")] = ""


class MachineImageSpec(Struct, kw_only=True):
    """What the image is, and where it is to be had."""

    size: Annotated[
        Quantity, Field("Smallest and default size of a disk made from it: whole Gi between 1Gi and 100Gi.")
    ]
    format: Annotated[Literal["raw", "qcow2"], Field("Format of the file, once unpacked. It is never guessed.")]
    compression: Annotated[
        Literal["gzip", "xz", "zstd"] | None, Field("How the file is packed as it is fetched; by default not at all.")
    ] = None
    source: Annotated[
        ImageSource | None, Field("Where the file is. Without it the image is known, but cannot be had yet.")
    ] = None
    checksum: Annotated[
        str, Field("sha256:<64 hex digits> of the file as it is fetched, before it is unpacked; required with source.")
    ] = ""
    firmware: Annotated[Literal["bios", "uefi"], Field("What starts the machine; by default bios.")] = "bios"
    boot: Annotated[DirectBoot | None, Field("Boot a kernel that lies beside the image; by default that in it.")] = None
    accepts: Annotated[
        Literal["cloud-init", "none"],
        Field("How it is told keys, addresses and user data: by cloud-init, the default, or not at all (none)."),
    ] = "cloud-init"
    display_name: Annotated[str, Field("Name for people.")] = ""
    description: Annotated[str, Field("What it is good for.")] = ""
    default_user: Annotated[str, Field("Whom to log in as when the keys name nobody else.")] = ""
    lifecycle: Annotated[ImageLifecycle | None, Field("Whether it may still be used; by default Active.")] = None


class MachineImageStatus(Struct):
    """The image as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    deprecated_at: Annotated[Time | None, Field("When it was deprecated.")] = None


class MachineImage(Kind):
    """An operating system for virtual machines. `tarmac/tiny` in a Workload names `tarmac-tiny`."""

    spec: Annotated[MachineImageSpec, Field("What the image is, and where it is to be had.")]
    status: Annotated[MachineImageStatus | None, Field("The image as it is.")] = None


def image_object_name(image: str) -> str:
    """The MachineImage object behind a name as written in a Workload."""
    return image.replace("/", "-")


def built_in_images() -> list[JsonObject]:
    """The catalogue that is there from the start. None has a source yet: where the files are is a matter of place."""
    ubuntu, tiny, debian = "Ubuntu 22.04 LTS", "A small Linux", "Debian 12"
    return [
        _document("datumcloud-ubuntu-2204-lts", ubuntu, "General purpose.", "25Gi", "qcow2", "ubuntu"),
        _document("tarmac-tiny", tiny, "For trying things out: a kernel, busybox and ssh.", "1Gi", "raw", "root"),
        _document("tarmac-debian-12", debian, "General purpose, with cloud-init.", "3Gi", "qcow2", "debian"),
    ]


def _document(name: str, display: str, description: str, size: str, format: str, user: str) -> JsonObject:
    spec = {
        "displayName": display,
        "description": description,
        "size": size,
        "format": format,
        "defaultUser": user,
        "lifecycle": {"phase": "Active"},
    }
    return {"apiVersion": API_VERSION, "kind": "MachineImage", "metadata": {"name": name}, "spec": spec}
