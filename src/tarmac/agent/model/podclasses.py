"""Interface of the pod loop to QoS classes, its data, and the implementation for nodes without classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.runtimes.interface import Containers, Resources, RuntimeSandbox

Classes = Mapping[str, str]
"""Type -> class."""


def _none() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ClassesInEffect:
    """Classes in effect for a pod and its running containers; empty where a requested class is not in effect."""

    pod: Classes = field(default_factory=_none)
    containers: Mapping[str, Classes] = field(default_factory=dict[str, Classes])


NO_CLASSES = ClassesInEffect()


@dataclass(frozen=True, slots=True)
class ClassRequest:
    """Class settings of a container to be created by the runtime."""

    annotations: Mapping[str, str] = field(default_factory=_none)
    classes: Classes = field(default_factory=_none)
    unified: Mapping[str, str] = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A created container and its sandbox."""

    name: str
    id: str
    sandbox: RuntimeSandbox


class PodClasses(Protocol):
    """Assigns pods to classes."""

    def handed_on(self, pod: AgentPod) -> Mapping[str, str]:
        """Return the pod's annotations that the runtime may see."""
        ...

    def of_sandbox(self, allotment: PodAllotment) -> Classes:
        """Return the classes of the pod for the runtime."""
        ...

    def request(self, allotment: PodAllotment, name: str) -> ClassRequest:
        """Return the class settings of a new container. Raises RuntimeFault if its class is not available."""
        ...

    async def prepare(self, allotment: PodAllotment, container: RunningContainer, *, fresh: bool) -> None:
        """Assign a container right before it starts; not `fresh`: an earlier agent created it. Raises RuntimeFault."""
        ...

    async def change(self, allotment: PodAllotment, container: RunningContainer, limits: Resources | None) -> None:
        """Apply new limits and classes to a running container. Raises RuntimeFault, CgroupError."""
        ...

    async def inspect(self, pod: AgentPod, allotment: PodAllotment, seen: PodRuntimeState) -> ClassesInEffect:
        """Return the classes in effect, after correcting deviations."""
        ...

    def forget(self, uid: str) -> None:
        """Drop the state of a finished pod."""
        ...


class Unclassed:
    """Implements `PodClasses` while the feature is off: classes are neither offered, read nor shown."""

    def __init__(self, runtime: Containers) -> None:
        self._runtime = runtime

    def handed_on(self, pod: AgentPod) -> Mapping[str, str]:
        return pod.annotations

    def of_sandbox(self, allotment: PodAllotment) -> Classes:
        return {}

    def request(self, allotment: PodAllotment, name: str) -> ClassRequest:
        return ClassRequest()

    async def prepare(self, allotment: PodAllotment, container: RunningContainer, *, fresh: bool) -> None:
        return None

    async def change(self, allotment: PodAllotment, container: RunningContainer, limits: Resources | None) -> None:
        if limits is not None:
            await self._runtime.update_container(container.id, limits)

    async def inspect(self, pod: AgentPod, allotment: PodAllotment, seen: PodRuntimeState) -> ClassesInEffect:
        return NO_CLASSES

    def forget(self, uid: str) -> None:
        return None
