"""Fixture: a volume driver over a medium, the API objects it reads, and its mounts on the machine."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.compute.names import LOCAL_DISKS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import ManualClock
from tarmac.decide.disks import PROVISIONED_BY
from tarmac.volumes.driver import PodVolumes
from tarmac.volumes.fake import FakeSources, FolderMedium
from tarmac.volumes.interface import MountedVolume, VolumeNotReady
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.loops import loops
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.linux.mountinfo import mounts
from tarmac.volumes.node import VolumeNode

UID = "1f0c4d3e-0000-4000-8000-000000000001"
MIB = 1 << 20


class QuickClock(ManualClock):
    """Waits take no time."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


@dataclass
class Bench:
    """A volume driver with its clock, objects and folder."""

    root: str
    real: bool
    sources: FakeSources = field(default_factory=FakeSources)
    clock: QuickClock = field(default_factory=QuickClock)
    grown: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    machine_answers: bool = True

    def __post_init__(self) -> None:
        self.facts = VolumeNode("here", {"kubernetes.io/hostname": "here"}, {"memory": "1Gi", "cpu": "2"})
        self.layout = VolumeLayout(self.root)
        self.restart()

    def restart(self) -> None:
        """Replace the driver by one of a new agent; the machine keeps its state."""
        self.medium = LinuxMedium(self.layout) if self.real else FolderMedium(self.layout)
        self.volumes = PodVolumes(self.layout, self.medium, self.sources, lambda: self.facts, self.clock, self._grown)

    async def _grown(self, pod_uid: str, volume: str, size: int) -> None:
        if not self.machine_answers:
            raise VolumeNotReady(volume, "the machine does not answer")
        self.grown.append((pod_uid, volume, size))

    async def mount(self, *volumes: JsonObject, **options: Any) -> dict[str, MountedVolume]:
        return dict(await self.volumes.mount(pod(*volumes, **options)))

    async def path(self, volume: JsonObject, **options: Any) -> str:
        return (await self.mount(volume, **options))[volume["name"]].path

    def leftovers(self) -> dict[str, list[str]]:
        """Return everything on the machine except disks and the root's own mount."""
        found = [each.path for each in mounts(self.root) if each.path != self.root]
        files = [os.path.join(base, name) for base, inner, names in os.walk(self.layout.pods) for name in names + inner]
        staging = f"{self.layout.disks}/staging"
        return {
            "mounts": found,
            "loops": [loop.file for loop in loops(self.layout.disks)],
            "files": files,
            "staging": os.listdir(staging) if os.path.isdir(staging) else [],
        }

    def add_config_map(self, name: str, **data: str) -> None:
        self.sources.config_maps[f"default/{name}"] = {"metadata": {"name": name}, "data": data}

    def add_secret(self, name: str, **data: bytes) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.sources.secrets[f"default/{name}"] = {"metadata": {"name": name}, "data": encoded}

    def add_disk(
        self, name: str, size: str = "32Mi", mode: str = "Filesystem", node: str = "here", **spec: Any
    ) -> None:
        """Add a bound claim `name` and its volume `pv-<name>`."""
        where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self.sources.claims[f"default/{name}"] = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"volumeName": f"pv-{name}", "volumeMode": mode},
            "status": {"phase": "Bound", "capacity": {"storage": size}},
        }
        self.sources.persistent_volumes[f"pv-{name}"] = {
            "metadata": {"name": f"pv-{name}", "annotations": {PROVISIONED_BY: LOCAL_DISKS}},
            "spec": {
                "capacity": {"storage": size},
                "volumeMode": mode,
                "storageClassName": "tarmac-local",
                "local": {"path": f"disks/pv-{name}.img"},
                "claimRef": {"uid": f"uid-{name}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
                **spec,
            },
        }


def pod(*volumes: JsonObject, uid: str = UID, unused: bool = False, **spec: Any) -> JsonObject:
    """Return a pod with these volumes, all mounted by its one container."""
    mounted = [] if unused else [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": uid, "labels": {"app": "web", "tier": 'a"b'}},
        "spec": {
            "serviceAccountName": "runner",
            "containers": [{"name": "main", "volumeMounts": mounted, "resources": {"limits": {"memory": "64Mi"}}}],
            "volumes": list(volumes),
            **spec,
        },
    }


def machine(*names: str, **spec: Any) -> JsonObject:
    """Return a virtual machine with the disks of these claims, as volumes of the same names."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    made = pod(*volumes, runtimeClassName="vm", **spec)
    devices = [{"name": name, "devicePath": f"/dev/disk/by-id/datumcloud-{name}"} for name in names]
    made["spec"]["containers"] = [{"name": "machine", "volumeDevices": devices}]
    return made


def claim(name: str, **source: Any) -> JsonObject:
    """Return a volume `data` of a claim."""
    return {"name": "data", "persistentVolumeClaim": {"claimName": name, **source}}


def content(path: str) -> str:
    with open(path) as file:
        return file.read()


def put(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
