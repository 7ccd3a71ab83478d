"""MachineImage: operating systems that virtual machines boot, and the built-in catalogue of them.

An image without a `source` may be named in manifests; the instances that name it wait until its source is set. No
property of an image is guessed: format, size and checksum are those of the object, and a node rejects any other file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.compute.instancetype import Phase
from tarmac.api.compute.names import API_VERSION
from tarmac.api.declare import Field, Struct
from tarmac.api.repositories import REGISTRY, Repository, parse_repository
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
    """The source of the file. Exactly one of file and url is set."""

    file: File = ""
    url: Url = ""
    checksums: Annotated[
        str,
        Field(
            "Beside url: address of a list of sums as sha256sum writes it, for a file that its publisher renews. Each "
            "node takes the sum that the list has when it first fetches the file; spec.checksum comes before it."
        ),
    ] = ""


class BootFile(Struct):
    """A kernel or an initial filesystem. Exactly one of file and url is set."""

    file: File = ""
    url: Url = ""
    checksum: Checksum = ""


class DirectBoot(Struct):
    """Boot a kernel that lies beside the image, not one that is in it."""

    kernel: Annotated[BootFile, Field("The kernel.")]
    initrd: Annotated[BootFile | None, Field("The initial filesystem; by default none.")] = None
    command_line: Annotated[str, Field("The command line of the kernel.", max_length=2048)] = ""


class ImageLifecycle(Struct):
    """Life cycle of the image."""

    phase: Annotated[
        Phase, Field("Moves forward only: Active, Deprecated (still works, warns), Disabled.", stored=True)
    ] = "Active"
    replacement_machine_image: Annotated[str, Field("The replacement; required once not Active.")] = ""


class MachineImageSpec(Struct, kw_only=True):
    """Properties and source of the image."""

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
    firmware: Annotated[Literal["bios", "uefi"], Field("The firmware of the machine; by default bios.")] = "bios"
    boot: Annotated[DirectBoot | None, Field("Boot a kernel that lies beside the image; by default that in it.")] = None
    accepts: Annotated[
        Literal["cloud-init", "none"],
        Field("How it is told keys, addresses and user data: by cloud-init, the default, or not at all (none)."),
    ] = "cloud-init"
    display_name: Annotated[str, Field("Name for people.")] = ""
    description: Annotated[str, Field("Its purpose.")] = ""
    default_user: Annotated[str, Field("The user to log in as when the keys name no other.")] = ""
    lifecycle: Annotated[ImageLifecycle | None, Field("Whether it may still be used; by default Active.")] = None


class MachineImageStatus(Struct):
    """The image as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    deprecated_at: Annotated[Time | None, Field("When it was deprecated.")] = None


class MachineImage(Kind):
    """An operating system for virtual machines. `tarmac/tiny` in a Workload names `tarmac-tiny`."""

    spec: Annotated[MachineImageSpec, Field("The image and its source.")]
    status: Annotated[MachineImageStatus | None, Field("The image as it is.")] = None


class LocalImageSource(Struct):
    """The source of the file. Exactly one of url and repository is set."""

    url: Annotated[
        str,
        Field(
            "Where nodes fetch the file: an address that begins with http:// or https://. Nodes reach public "
            "addresses, and those they are allowed."
        ),
    ] = ""
    repository: Annotated[
        str,
        Field(
            "Name of a repository of the platform's registry, in this namespace, that has the file. It is set by "
            "`tarmac image upload`. Nodes fetch it as the service account of the Pod, which needs the verb pull."
        ),
    ] = ""


class LocalMachineImageSpec(Struct, kw_only=True):
    """Properties and URL of the image."""

    size: Annotated[
        Quantity, Field("Smallest and default size of a disk made from it: whole Gi between 1Gi and 100Gi.")
    ]
    format: Annotated[Literal["raw", "qcow2"], Field("Format of the file, once unpacked. It is never guessed.")]
    compression: Annotated[
        Literal["gzip", "xz", "zstd"] | None, Field("How the file is packed as it is fetched; by default not at all.")
    ] = None
    source: Annotated[LocalImageSource, Field("Where the file is.")]
    checksum: Checksum
    firmware: Annotated[Literal["bios", "uefi"], Field("The firmware of the machine; by default bios.")] = "bios"
    accepts: Annotated[
        Literal["cloud-init", "none"],
        Field("How it is told keys, addresses and user data: by cloud-init, the default, or not at all (none)."),
    ] = "cloud-init"
    display_name: Annotated[str, Field("Name for people.", max_length=256)] = ""
    description: Annotated[str, Field("Its purpose.", max_length=4096)] = ""
    default_user: Annotated[str, Field("The user to log in as when the keys name no other.")] = ""

    def for_nodes(self, namespace: str) -> MachineImageSpec:
        """Return the fields that matter to machines, in the form that nodes get. `namespace`: of the image."""
        uploaded = Repository(namespace, self.source.repository)
        return MachineImageSpec(
            size=self.size,
            format=self.format,
            compression=self.compression,
            source=ImageSource(url=self.source.url or registry_url(uploaded)),
            checksum=self.checksum,
            firmware=self.firmware,
            accepts=self.accepts,
            default_user=self.default_user,
        )


class LocalMachineImage(Kind):
    """An operating system that a namespace brings for its own virtual machines. `./os` in a Workload names `os`."""

    spec: Annotated[LocalMachineImageSpec, Field("The image and its source.")]


_REGISTRY_PREFIX = f"oci://{REGISTRY}/"


def registry_url(repository: Repository) -> str:
    """Return the URL, for nodes, of files in a repository of the platform's registry. No manifest may contain it."""
    return f"{_REGISTRY_PREFIX}{repository}"


def registry_repository(url: str) -> Repository | None:
    """Return the repository of such a URL; None for any other URL."""
    return parse_repository(url.removeprefix(_REGISTRY_PREFIX)) if url.startswith(_REGISTRY_PREFIX) else None


LOCAL = "./"
"""Prefix of the name of a LocalMachineImage in a Workload. No name of the catalogue has it."""

_OWNED = ":"


def image_object_name(image: str) -> str:
    """Return the object name for a name as written in a Workload: a LocalMachineImage or a MachineImage."""
    return image.removeprefix(LOCAL) if is_local(image) else image.replace("/", "-")


def is_local(image: str) -> bool:
    """Return True if a name as written in a Workload is that of a LocalMachineImage."""
    return image.startswith(LOCAL)


def node_image_name(image: str, namespace: str) -> str:
    """Return the name of an image on Pods and nodes: `NAMESPACE:NAME` for a local one, which makes it unique."""
    return f"{namespace}{_OWNED}{image_object_name(image)}" if is_local(image) else image


def image_owner(name: str) -> str:
    """Return the namespace that owns the image of this name on a node; empty if it is the catalogue's."""
    return name.partition(_OWNED)[0] if _OWNED in name else ""


def described_image(name: str) -> str:
    """Return kind and name of the object for the name of an image on a node."""
    if _OWNED in name:
        return f"LocalMachineImage {name.partition(_OWNED)[2]}"
    return f"MachineImage {image_object_name(name)}"


def built_in_images() -> list[JsonObject]:
    """Return the built-in catalogue.

    A source is set where the publisher keeps a stable URL with a list of SHA-256 sums beside it. The other two images
    are built from packages: their sources are set once their files have been made.
    """
    ubuntu, tiny, debian = "Ubuntu 22.04 LTS", "A small Linux", "Debian 12"
    return [
        _document("datumcloud-ubuntu-2204-lts", ubuntu, "General purpose.", "25Gi", "qcow2", "ubuntu", _UBUNTU_SOURCE),
        _document("tarmac-tiny", tiny, "For trying things out: a kernel, busybox and ssh.", "1Gi", "raw", "root"),
        _document("tarmac-debian-12", debian, "General purpose, with cloud-init.", "3Gi", "qcow2", "debian"),
    ]


_UBUNTU = "https://cloud-images.ubuntu.com/releases/22.04/release"
_UBUNTU_SOURCE = {
    "url": f"{_UBUNTU}/ubuntu-22.04-server-cloudimg-amd64.img",
    "checksums": f"{_UBUNTU}/SHA256SUMS",
}


def _document(
    name: str,
    display: str,
    description: str,
    size: str,
    format: str,
    user: str,
    source: dict[str, str] | None = None,
) -> JsonObject:
    spec = {
        "displayName": display,
        "description": description,
        "size": size,
        "format": format,
        "defaultUser": user,
        "lifecycle": {"phase": "Active"},
        **({"source": source} if source else {}),
    }
    return {"apiVersion": API_VERSION, "kind": "MachineImage", "metadata": {"name": name}, "spec": spec}
