"""What the pod loop asks of classes, and what it is told. Plain data, and the answer of a node that knows none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.pod import Pod
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.runtimes.interface import Containers, Resources, Sandbox

Classes = Mapping[str, str]
"""Type -> class."""


def _none() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ClassesInEffect:
    """The classes that a pod and its running containers are in; empty for one that was asked for in vain."""

    pod: Classes = field(default_factory=_none)
    containers: Mapping[str, Classes] = field(default_factory=dict[str, Classes])


NO_CLASSES = ClassesInEffect()


@dataclass(frozen=True, slots=True)
class ClassRequest:
    """What the runtime is asked for with a container that it makes."""

    annotations: Mapping[str, str] = field(default_factory=_none)
    classes: Classes = field(default_factory=_none)
    unified: Mapping[str, str] = field(default_factory=_none)


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container that was made, in its sandbox."""

    name: str
    id: str
    sandbox: Sandbox


class PodClasses(Protocol):
    """Puts pods into classes."""

    def handed_on(self, pod: Pod) -> Mapping[str, str]:
        """The annotations of a pod that the runtime may see."""
        ...

    def of_sandbox(self, allotment: PodAllotment) -> Classes:
        """What the runtime is told about the pod as a whole."""
        ...

    def request(self, allotment: PodAllotment, name: str) -> ClassRequest:
        """What the runtime is asked for with a container. Raises RuntimeFault when its class cannot be had."""
        ...

    async def prepare(self, allotment: PodAllotment, container: RunningContainer, *, fresh: bool) -> None:
        """Right before a container starts; not `fresh`: somebody else made it. Raises RuntimeFault."""
        ...

    async def change(self, allotment: PodAllotment, container: RunningContainer, limits: Resources | None) -> None:
        """Give a running container other limits and other classes. Raises RuntimeFault, CgroupError."""
        ...

    async def look(self, pod: Pod, allotment: PodAllotment, seen: PodRuntimeState) -> ClassesInEffect:
        """Which classes are in effect; what is not as it should be is put right."""
        ...

    def forget(self, uid: str) -> None:
        """The pod is over."""
        ...


class Unclassed:
    """Implements `PodClasses` where the feature is off: nothing is offered, read or shown."""

    def __init__(self, runtime: Containers) -> None:
        self._runtime = runtime

    def handed_on(self, pod: Pod) -> Mapping[str, str]:
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

    async def look(self, pod: Pod, allotment: PodAllotment, seen: PodRuntimeState) -> ClassesInEffect:
        return NO_CLASSES

    def forget(self, uid: str) -> None:
        return None
