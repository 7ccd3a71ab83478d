"""Translates a container's spec into the runtime's container configuration."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.containers.mounts import HOSTS, volume_devices, volume_mounts
from tarmac.agent.containers.notes import container_notes
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.containers.security import container_security
from tarmac.agent.environment.expansion import expand
from tarmac.agent.environment.hosts import hosts_file, write_hosts_file
from tarmac.agent.environment.variables import PodEnvironment, environment, with_devices
from tarmac.agent.model.allotment import ContainerAllotment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podsettings import PodSettings
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import ContainerConfig, Image, Mount
from tarmac.volumes.interface import MountedVolume, ObjectSources, Volumes


@dataclass(frozen=True, slots=True)
class ContainerToMake:
    """All inputs for the configuration of one container."""

    pod: AgentPod
    container: JsonObject
    attempt: int
    image: Image
    volumes: Mapping[str, MountedVolume]
    surroundings: PodEnvironment
    allotment: ContainerAllotment
    recursive_read_only: bool = False
    target: str = ""  # id of the container whose process namespace it shares


class ContainerConfigs:
    """Builds container configurations, and the files on the node that they mount."""

    def __init__(self, settings: PodSettings, paths: PodPaths, volumes: Volumes, sources: ObjectSources) -> None:
        self._settings = settings
        self._paths = paths
        self._volumes = volumes
        self._sources = sources

    async def config(self, wanted: ContainerToMake) -> ContainerConfig:
        """Return the runtime configuration. Raises ConfigMissing, SecurityRefused and OSError."""
        pod, container = wanted.pod, wanted.container
        security = container_security(
            pod,
            container,
            wanted.image,
            self._settings.root_dir / "seccomp",
            seccomp_default=self._settings.seccomp_default,
            raw_sockets=self._settings.raw_sockets,
            target=wanted.target,
        )
        given = wanted.allotment.devices
        stated = dict(await environment(pod, container, self._sources, wanted.surroundings))
        known = with_devices(dict(given.envs), stated, wanted.image.variables)
        mounts = await self._mounts(wanted, known)
        return ContainerConfig(
            name=container["name"],
            attempt=wanted.attempt,
            image=wanted.image.id,
            image_name=container["image"],
            command=tuple(expand(each, known) for each in container.get("command") or ()),
            args=tuple(expand(each, known) for each in container.get("args") or ()),
            working_dir=container.get("workingDir") or "",
            envs=tuple(known.items()),
            mounts=(*given.mounts, *mounts),
            devices=(*given.devices, *volume_devices(container, wanted.volumes)),
            cdi_devices=given.cdi,
            annotations={**given.annotations, **container_notes(pod, container, wanted.attempt)},
            log_path=f"{container['name']}/{wanted.attempt}.log",
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            tty=bool(container.get("tty")),
            stop_signal=(container.get("lifecycle") or {}).get("stopSignal") or "",
            resources=wanted.allotment.resources(),
            security=security,
        )

    async def _mounts(self, wanted: ContainerToMake, variables: Mapping[str, str]) -> list[Mount]:
        pod, container = wanted.pod, wanted.container
        mounts = await volume_mounts(
            pod,
            container,
            wanted.volumes,
            self._volumes,
            variables,
            recursive_read_only=wanted.recursive_read_only,
        )
        return [*mounts, *self._own_files(wanted, {each.container_path for each in mounts})]

    def _own_files(self, wanted: ContainerToMake, taken: Set[str]) -> list[Mount]:
        """Return mounts of the hosts file and the termination message file, unless a volume is mounted there."""
        pod, container = wanted.pod, wanted.container
        name = container["name"]
        mounts: list[Mount] = []
        self._paths.container_logs(pod, name).mkdir(parents=True, exist_ok=True)
        addresses = wanted.surroundings.pod_addresses
        if HOSTS not in taken and (addresses or pod.host_network):
            path = self._paths.hosts(pod.uid)
            write_hosts_file(path, hosts_file(pod, addresses, self._settings.cluster_domain))
            mounts.append(Mount(HOSTS, str(path)))
        message = container.get("terminationMessagePath")
        if message and message not in taken:
            path = self._paths.termination_message(pod.uid, name, wanted.attempt)
            _empty_for_everyone(path)
            mounts.append(Mount(message, str(path)))
        return mounts


def _empty_for_everyone(path: Path) -> None:
    """Create an empty file writable by every user, since the container may run as any; its directory stays private."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    path.write_bytes(b"")
    # The umask would remove bits from a mode given at the creation; chmod ignores it.
    path.chmod(0o666)
