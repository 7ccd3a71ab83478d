"""Reads a plugin's answer to `Allocate`: the settings of a container. Pure.

Answers of several plugins are merged as kubelet does: the first entry of a path, a variable or an annotation wins. An
invalid answer is rejected when it arrives, not when the container is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import DecodeError

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.model.devices import ContainerDevices
from tarmac.runtimes.interface import Device, Mount

MAX_TEXT: Final = 64 * 1024
"""Maximum bytes of an answer: it is kept on disk for as long as the pod lives."""
MAX_ENTRIES: Final = 1024
"""Maximum entries of each sort in an answer."""
_SHOWN: Final = 256  # characters of an invalid name or path


class InvalidPluginResponse(Exception):
    """A plugin's answer is invalid."""


def of_one_container(answer: bytes) -> bytes:
    """Return the part for the one requested container, validated. Raises InvalidPluginResponse."""
    try:
        response = pb.AllocateResponse.FromString(answer)
    except DecodeError as error:
        raise InvalidPluginResponse("an allocation response that is no message of the device plugin API") from error
    if not response.container_responses:
        raise InvalidPluginResponse("no containers return in allocation response")
    part = response.container_responses[0]
    _check(part)
    return part.SerializeToString()


def together(answers: Iterable[bytes]) -> ContainerDevices:
    """Merge the answers of all plugins of a container; the first entry wins."""
    envs: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, Device] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for answer in answers:
        part = pb.ContainerAllocateResponse.FromString(answer)
        envs = {**dict(sorted(part.envs.items())), **envs}
        annotations = {**part.annotations, **annotations}
        for mount in part.mounts:
            mounts.setdefault(mount.container_path, Mount(mount.container_path, mount.host_path, mount.read_only))
        for each in part.devices:
            device = Device(each.container_path, each.host_path, each.permissions)
            devices.setdefault(each.container_path, device)
        cdi |= dict.fromkeys(each.name for each in part.cdi_devices)
    return ContainerDevices(
        tuple(envs.items()), tuple(mounts.values()), tuple(devices.values()), tuple(cdi), annotations
    )


def _check(part: pb.ContainerAllocateResponse) -> None:
    sorts = (part.envs, part.mounts, part.devices, part.annotations, part.cdi_devices)
    if any(len(each) > MAX_ENTRIES for each in sorts):
        raise InvalidPluginResponse(f"an allocation response with more than {MAX_ENTRIES} entries of one sort")
    for mount in part.mounts:
        _absolute("mount", mount.container_path, mount.host_path)
    for each in part.devices:
        _absolute("device", each.container_path, each.host_path)
        if set(each.permissions) - set("rwm"):
            raise InvalidPluginResponse(
                f"device {each.container_path}: permissions {each.permissions!r} are not out of r, w, m"
            )
    for name, value in part.envs.items():
        if not name or "=" in name or "\0" in name:
            raise InvalidPluginResponse(f"{name[:_SHOWN]!r} is no name of an environment variable")
        if "\0" in value:
            raise InvalidPluginResponse(f"environment variable {name[:_SHOWN]!r}: the value has a NUL character")


def _absolute(what: str, *paths: str) -> None:
    for path in paths:
        # With `..` in it, the path that is checked or shown is not the one that is mounted.
        if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise InvalidPluginResponse(f"{what}: {path[:_SHOWN]!r} is not an absolute path without ..")
