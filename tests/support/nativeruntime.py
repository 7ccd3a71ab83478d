"""A runtime with QoS classes, which no released runtime has yet.

It announces `types`, rejects unknown classes before any change, reports the classes in effect, and lets a test break a
class (`lose`) or refuse the next update (`trouble`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.interface import (
    ContainerConfig,
    Resources,
    RuntimeClasses,
    RuntimeClassType,
    RuntimeContainer,
    RuntimeRefused,
    RuntimeSandbox,
    RuntimeStatus,
    SandboxConfig,
)

TYPES = RuntimeClasses(
    pod=(RuntimeClassType("net", {"gold": 1, "tin": 0}),),
    container=(
        RuntimeClassType("blockio", {"slow": 2, "fast": 0}),
        RuntimeClassType("cache", {"big": 0, "small": 0}, immutable=True),
    ),
)


class NativeRuntime(FakeRuntime):
    """Implements `Runtime`."""

    def __init__(self, *args: object, types: RuntimeClasses = TYPES, **more: object) -> None:
        super().__init__(*args, **more)  # pyright: ignore[reportArgumentType] - as the fake takes them
        self.types = types
        self.told: list[Mapping[str, str]] = []  # the requested classes of each sandbox
        self._of_sandboxes: dict[str, dict[str, str]] = {}
        self._of_containers: dict[str, dict[str, str]] = {}

    def lose(self, id: str, kind: str) -> None:
        """Remove a container from its class."""
        self._of_containers[id].pop(kind, None)

    async def status(self) -> RuntimeStatus:
        return replace(await super().status(), classes=self.types)

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        asked = {kind: name for kind, name in config.classes.items() if kind != "pod-qos"}
        _check(self.types.pod, asked)
        made = await super().run_sandbox(config, handler)
        self.told.append(config.classes)
        self._of_sandboxes[made] = asked
        return made

    async def sandbox(self, id: str) -> RuntimeSandbox:
        return replace(await super().sandbox(id), classes=dict(self._of_sandboxes.get(id, {})))

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        await self._arrive("update_sandbox", id)
        _check(self.types.pod, classes, change=True)
        self._of_sandboxes[id].update(classes)

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        _check(self.types.container, config.classes)
        made = await super().create_container(sandbox_id, config, sandbox)
        self._of_containers[made] = dict(config.classes)
        return made

    async def container(self, id: str) -> RuntimeContainer:
        return replace(await super().container(id), classes=dict(self._of_containers.get(id, {})))

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Update all or nothing: every class is validated before the first change."""
        _check(self.types.container, classes or {}, change=True)
        await super().update_container(id, resources)
        for kind, name in (classes or {}).items():
            self._of_containers[id][kind] = name


def _check(types: tuple[RuntimeClassType, ...], asked: Mapping[str, str], *, change: bool = False) -> None:
    known = {each.name: each for each in types}
    for kind, name in asked.items():
        if kind not in known or (name and name not in known[kind].classes):
            raise RuntimeRefused(f'no class "{name}" of type "{kind}"')
        if change and known[kind].immutable:
            raise RuntimeRefused(f'type "{kind}" cannot be changed')
