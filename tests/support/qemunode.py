"""Surroundings of a driver of machines without a node: cgroups of its own, no networks, one image."""

from __future__ import annotations

import io
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.machinegroups import MachineGroups
from tarmac.agent.cgroups.mounted import mounted
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.base.clock import SystemClock
from tarmac.runtimes.interface import (
    ContainerConfig,
    Credentials,
    Device,
    Image,
    ImageRefused,
    PodIdentity,
    Progress,
    Resources,
    SandboxConfig,
)
from tarmac.runtimes.qemu.accelerator import AcceleratorProbe
from tarmac.runtimes.qemu.dependencies import BootFiles
from tarmac.runtimes.qemu.qemuruntime import QemuRuntime
from tarmac.runtimes.qemu.records import MachineFolders
from tests.support.bootsector import Behaviour, boot_sector
from tests.support.containerd import BUSYBOX

MEMORY = 32 << 20
OVERHEAD = 192 << 20


class NoTaps:
    """Pods here have no networks."""

    async def attach(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        return ()

    async def open(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        raise AssertionError("there is no interface to open")

    async def detach(self, sandbox_id: str) -> None:
        return None

    async def traffic(self) -> Mapping[str, tuple[int, int]]:
        return {}


class OneImage:
    """A store with one image, which has the name of the contract suite."""

    boot: BootFiles | None = None
    uefi = False
    learned: list[str]

    def __init__(self) -> None:
        self.learned = []

    def learn(self, annotation: str) -> None:
        self.learned.append(annotation)

    def boot_files(self, image_id: str) -> BootFiles | None:
        return self.boot

    def starts_by_uefi(self, image_id: str) -> bool:
        return self.uefi

    def accepts_cloud_init(self, image_id: str) -> bool:
        return True

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        if image != BUSYBOX:
            raise ImageRefused(f'image "{image}" cannot be had')
        return "sha256:1"

    async def image(self, name: str, handler: str = "") -> Image | None:
        return Image("sha256:1", (BUSYBOX,), (), 1) if name in (BUSYBOX, "sha256:1") else None

    async def images(self) -> Sequence[Image]:
        found = await self.image(BUSYBOX)
        return [found] if found else []

    async def remove_image(self, name: str, handler: str = "") -> None:
        return None

    async def image_space(self) -> tuple[str, int, int]:
        return "/", 1, 1


class QemuNode:
    """Folders, cgroups and disks of one test. `runtime` makes a driver as an agent that starts does."""

    def __init__(self) -> None:
        if shutil.which("qemu-system-x86_64") is None:
            pytest.skip("NOT RUN: qemu-system-x86_64 is not installed (apt-get install qemu-system-x86)")
        self.folder = Path(tempfile.mkdtemp(prefix="tarmac-vm-", dir="/run"))  # sockets need a short path
        self.hierarchy: Hierarchy = mounted()
        self.top = f"/tarmac-test-{uuid.uuid4().hex[:8]}"
        self.folders = MachineFolders(self.folder / "vm", self.folder / "machines")
        self.taps, self.images = NoTaps(), OneImage()
        self.clock = SystemClock()

    async def runtime(self) -> QemuRuntime:
        async def probed() -> AcceleratorProbe:
            return AcceleratorProbe("tcg", "for the test")

        groups = MachineGroups(self.hierarchy)
        made = QemuRuntime(self.folders, self.taps, groups, self.images, self.clock, probed, "fe80::1")
        await made.adopt()
        await made.probe()
        return made

    def sandbox(self, memory: int = MEMORY + OVERHEAD, **more: Any) -> SandboxConfig:
        """A pod of its own, with its cgroup."""
        from tarmac.agent.model.cgrouplimits import CgroupLimits

        uid = str(uuid.uuid4())
        pod = PodIdentity("default", f"pod-{uid[:8]}", uid)
        group = f"{self.top}/pod{uid}"
        self.hierarchy.make(group)
        self.hierarchy.limit(group, CgroupLimits(memory=memory))
        logs = self.folder / uid
        logs.mkdir()
        settings: dict[str, Any] = {"hostname": pod.name, "cgroup_parent": group, "log_directory": str(logs)}
        return SandboxConfig(pod, **{**settings, **more})

    def machine(self, behaviour: Behaviour, says: str = "hello", name: str = "main") -> ContainerConfig:
        """A machine that boots a few bytes."""
        disk = self.folder / f"{uuid.uuid4().hex}.img"
        disk.write_bytes(boot_sector(behaviour, says).ljust(1 << 20, b"\0"))
        return self.booting(Device("/dev/disk/by-id/datumcloud-boot", str(disk)), name=name)

    def booting(self, *disks: Device, name: str = "main", memory: int = MEMORY) -> ContainerConfig:
        """A machine with these disks."""
        limits = Resources(cpu_period=100_000, cpu_quota=100_000, memory_limit=memory)
        return ContainerConfig(name, 0, BUSYBOX, BUSYBOX, log_path=f"{name}.log", devices=disks, resources=limits)

    def processes(self) -> set[int]:
        """Return the processes in the pods' cgroups."""
        return self.hierarchy.inhabitants(self.top) if self.hierarchy.exists(self.top) else set()

    def close(self) -> None:
        """Remove everything."""
        import time

        for _ in range(100):
            self.hierarchy.kill(self.top)
            if self.hierarchy.remove(self.top):
                break
            time.sleep(0.02)  # killed processes take a moment to leave
        shutil.rmtree(self.folder, ignore_errors=True)
