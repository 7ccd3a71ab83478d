"""A runtime in memory with pods, and volumes with settable usage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tarmac.agent.stats.podstats import PodStats
from tarmac.base.clock import ManualClock
from tarmac.runtimes.interface import (
    ContainerState,
    PodIdentity,
    Runtime,
    RuntimeContainer,
    RuntimeSandbox,
    RuntimeUsage,
)
from tarmac.runtimes.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from tarmac.volumes.interface import Volumes
from tarmac.volumes.interface import VolumeUsage as VolumeUsage


class Scene:
    """Pods, their usage, and counts of reads."""

    def __init__(self, logs: Path) -> None:
        self.clock = ManualClock()
        self.all_sandboxes: list[RuntimeSandbox] = []
        self.all_containers: list[RuntimeContainer] = []
        self.usages: dict[str, RuntimeUsage] = {}
        self.volumes: dict[str, dict[str, VolumeUsage]] = {}
        self.looks = 0
        self.walks = 0
        self.stats = PodStats(cast("Runtime", self), cast("Volumes", self), logs, self.clock)

    def add(self, name: str, *containers: str, memory: int = 0, disk: int = 0, processes: int = 1) -> str:
        uid = f"uid-{name}"
        labels = {POD_NAMESPACE: "default", POD_NAME: name, POD_UID: uid}
        at = self.clock.now()
        pod = PodIdentity("default", name, uid)
        self.all_sandboxes.append(RuntimeSandbox(f"s-{name}", pod, True, at, "runc", labels, {}))
        for each in containers:
            self.container(name, each)
            self.usages[f"{name}-{each}"] = RuntimeUsage(
                f"{name}-{each}", at, 1.0, memory, disk=disk, processes=processes
            )
        self.usages[f"s-{name}"] = RuntimeUsage(
            f"s-{name}", at, 2.0, memory * len(containers), received=7, transmitted=8, processes=processes
        )
        return uid

    def container(
        self, pod: str, name: str, attempt: int = 0, state: ContainerState = "running", identity: str = ""
    ) -> RuntimeContainer:
        labels = {POD_NAMESPACE: "default", POD_NAME: pod, POD_UID: f"uid-{pod}", CONTAINER_NAME: name}
        made = RuntimeContainer(
            identity or f"{pod}-{name}", f"s-{pod}", name, attempt, state, "image", "sha256:1", labels, {},
            self.clock.now() + attempt,
        )  # fmt: skip
        self.all_containers.append(made)
        return made

    async def sandboxes(self, pod_uid: str | None = None) -> list[RuntimeSandbox]:
        self.looks += 1
        return [each for each in self.all_sandboxes if pod_uid in (None, each.pod.uid)]

    async def containers(self, pod_uid: str | None = None) -> list[RuntimeContainer]:
        return [each for each in self.all_containers if pod_uid in (None, each.labels[POD_UID])]

    async def container_usage(self) -> list[RuntimeUsage]:
        return [usage for name, usage in self.usages.items() if not name.startswith("s-")]

    async def sandbox_usage(self) -> list[RuntimeUsage]:
        return [usage for name, usage in self.usages.items() if name.startswith("s-")]

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        self.walks += 1
        return self.volumes.get(pod_uid, {})


def volume(used: int, *, shared: bool = True) -> VolumeUsage:
    return VolumeUsage(used, 1 << 30, 1 << 29, 5, 1000, 900, shared=shared)


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Pod with this spec."""
    listed = [{"name": f"c{index}", **each} for index, each in enumerate(containers or ({},))]
    return {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {"containers": listed, **spec},
        "status": {"phase": "Running"},
    }


def asks(**amounts: str) -> dict[str, Any]:
    """Return a container's requests and limits."""
    named = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    return {"resources": {"requests": named, "limits": named}}
