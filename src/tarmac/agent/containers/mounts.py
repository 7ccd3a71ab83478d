"""Volume mounts and block devices of a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from tarmac.agent.environment.expansion import expand
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Device, Mount
from tarmac.volumes.interface import MountedVolume, VolumeError, Volumes

HOSTS = "/etc/hosts"


async def volume_mounts(
    pod: AgentPod,
    container: JsonObject,
    mounted: Mapping[str, MountedVolume],
    volumes: Volumes,
    variables: Mapping[str, str],
    *,
    recursive_read_only: bool,
) -> list[Mount]:
    """Return the mounts with their source paths. Raises ConfigMissing."""
    found: list[Mount] = []
    for index, stated in enumerate(container.get("volumeMounts") or ()):
        volume = mounted.get(stated["name"])
        if volume is None:
            raise ConfigMissing(f'cannot find volume "{stated["name"]}" to mount into container "{container["name"]}"')
        sub = _sub_path(stated, variables)
        path = volume.path
        if sub:
            try:
                path = await volumes.subpath(volume, sub, pod.uid, container["name"], index)
            except VolumeError as error:
                whose = f'volumeMount "{stated["name"]}" of container "{container["name"]}"'
                raise ConfigMissing(f"failed to prepare subPath for {whose}") from error
        found.append(
            Mount(
                container_path=_absolute(stated["mountPath"]),
                host_path=path,
                read_only=bool(stated.get("readOnly")) or volume.read_only,
                recursive_read_only=is_recursive(stated, recursive_read_only),
                propagation=stated.get("mountPropagation") or "None",
            )
        )
    return found


def is_recursive(stated: JsonObject, supported: bool) -> bool:
    """Return True if mounts below a read-only one become read-only too. Raises ConfigMissing."""
    asked = stated.get("recursiveReadOnly") or "Disabled"
    if asked == "Enabled" and not supported:
        raise ConfigMissing(
            "failed to resolve recursive read-only mode: "
            f'volume "{stated["name"]}" requested recursive read-only mode, but it is not supported by the runtime'
        )
    return asked == "Enabled" or (asked == "IfPossible" and supported)


def volume_devices(container: JsonObject, mounted: Mapping[str, MountedVolume]) -> list[Device]:
    """Return the block volumes as devices. Raises ConfigMissing."""
    found: list[Device] = []
    for stated in container.get("volumeDevices") or ():
        volume = mounted.get(stated["name"])
        if volume is None or not volume.device:
            raise ConfigMissing(f'cannot find volume "{stated["name"]}" to pass into container "{container["name"]}"')
        found.append(Device(stated["devicePath"], volume.path, "mr" if volume.read_only else "mrw"))
    return found


def _sub_path(stated: JsonObject, variables: Mapping[str, str]) -> str:
    path = stated.get("subPath") or ""
    if template := stated.get("subPathExpr"):
        path = expand(template, variables)
        if "$(" in path:
            missing = path.partition("$(")[2].partition(")")[0]
            raise ConfigMissing(f'missing value for "{missing}"')
    if PurePosixPath(path).is_absolute():
        raise ConfigMissing(f"error SubPath `{path}` must not be an absolute path")
    # A first check, with kubelet's message. In `subpath` the kernel resolves the path beneath the volume, links
    # included.
    if ".." in PurePosixPath(path).parts:
        raise ConfigMissing(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"
