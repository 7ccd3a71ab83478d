"""Reads the runtime state of one pod with a minimum of calls.

Two lists give all sandboxes and containers with their states. Details are fetched only for a new state: once for a
running container, once after it exited (with its termination message), once for the addresses of a sandbox. After a
step of this agent only the objects it created are read, so starting a bound pod makes no unnecessary call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from tarmac.agent.containers.notes import TERMINATION_PATH, TERMINATION_POLICY
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.containers.terminationmessages import termination_message
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.status.containerstatuses import LOST_REASON
from tarmac.runtimes.interface import Runtime, RuntimeContainer, RuntimeObjectNotFound, RuntimeSandbox

_UNKNOWN_CODE = 255
_INTERRUPTED_START = ("context canceled", "signal: killed")
"""Errors of a runtime when the agent that had requested a start disconnected during it."""
_EXIT_UNOBSERVED = "The container ended while nobody was watching: its exit code is not known"


@dataclass(slots=True)
class StepResult:
    """Ids of objects that a step created; `other`: it may have changed further objects too."""

    sandbox: str = ""
    containers: list[str] = field(default_factory=list[str])
    other: bool = False

    def __bool__(self) -> bool:
        return bool(self.sandbox or self.containers or self.other)


class PodInspector:
    """Caches details that cannot have changed since the last inspection."""

    def __init__(self, runtime: Runtime, paths: PodPaths, uid: str) -> None:
        self._runtime = runtime
        self._paths = paths
        self._uid = uid
        self._containers: dict[str, RuntimeContainer] = {}
        self._sandboxes: dict[str, RuntimeSandbox] = {}
        self._broken: set[str] = set()

    async def inspect(self) -> PodRuntimeState:
        """Return the current state. Raises RuntimeFault."""
        sandboxes, containers = await asyncio.gather(
            self._runtime.sandboxes(self._uid), self._runtime.containers(self._uid)
        )
        found = await asyncio.gather(*(self._sandbox(each) for each in sandboxes))
        details = await asyncio.gather(*(self._container(each) for each in containers))
        # Replaced only after every call has succeeded: a failed or cancelled inspection leaves the previous state
        # whole.
        self._sandboxes = {each.id: each for each in found if each is not None}
        self._containers = {each.id: each for each in details if each is not None}
        return self._state()

    async def inspect_created(self, result: StepResult) -> PodRuntimeState:
        """Return the cached state updated with the objects just created. Raises RuntimeFault."""
        details = await asyncio.gather(*(self._runtime.container(each) for each in result.containers))
        self._containers |= {each.id: self._normalised(each) for each in details}
        if result.sandbox:
            self._sandboxes[result.sandbox] = await self._runtime.sandbox(result.sandbox)
        return self._state()

    def _state(self) -> PodRuntimeState:
        return PodRuntimeState(
            tuple(sorted(self._sandboxes.values(), key=lambda each: (-each.pod.attempt, -each.created_at))),
            # By attempt first: if the clock was set back, creation times would make the newest container look like the
            # oldest, and it would be started over and over.
            tuple(sorted(self._containers.values(), key=lambda each: (-each.attempt, -each.created_at))),
            frozenset(self._broken & self._containers.keys()),
        )

    async def _sandbox(self, listed: RuntimeSandbox) -> RuntimeSandbox | None:
        known = self._sandboxes.get(listed.id)
        if known is not None and known.ready == listed.ready:
            return known
        # A stopped sandbox has lost its addresses in the runtime; the status of a finished pod still shows them.
        if not listed.ready:
            return replace(listed, addresses=known.addresses if known else ())
        try:
            return await self._runtime.sandbox(listed.id)
        except RuntimeObjectNotFound:
            # Removed since the list: treated as not listed.
            return None

    async def _container(self, listed: RuntimeContainer) -> RuntimeContainer | None:
        known = self._containers.get(listed.id)
        if known is not None and (_is_as_known(known, listed) or known.id in self._broken):
            return known
        try:
            return self._normalised(await self._runtime.container(listed.id))
        except RuntimeObjectNotFound:
            return None

    def _normalised(self, container: RuntimeContainer) -> RuntimeContainer:
        """Return the container in the state that counts for the pod: one that never ran counts as created."""
        if container.state != "exited":
            return container
        if _never_ran(container):
            self._broken.add(container.id)
            return replace(container, state="created", exit_code=0, reason="", message="", finished_at=0.0)
        return self._ended(container)

    def _ended(self, container: RuntimeContainer) -> RuntimeContainer:
        """Return the exited container with its termination message."""
        if container.exit_code == _UNKNOWN_CODE and container.reason == "Unknown":
            container = replace(container, reason=LOST_REASON, message=container.message or _EXIT_UNOBSERVED)
        if not container.annotations.get(TERMINATION_PATH):
            return container
        termination_text = termination_message(
            self._paths.termination_message(self._uid, container.name, container.attempt),
            Path(container.log_path) if container.log_path else None,
            container.annotations.get(TERMINATION_POLICY) == "FallbackToLogsOnError" and container.exit_code != 0,
        )
        return replace(container, message=": ".join(each for each in (container.message, termination_text) if each))


def _is_as_known(known: RuntimeContainer, listed: RuntimeContainer) -> bool:
    """Return True if the cached details are still valid.

    A running container may be paused, which lists report as reason.
    """
    return known.state == listed.state and (known.state != "running" or known.reason == listed.reason)


def _never_ran(container: RuntimeContainer) -> bool:
    """Return True if the start was interrupted: that is no failure of the container and must not count as a crash."""
    cut = any(words in container.message for words in _INTERRUPTED_START)
    return cut and container.reason == "StartError" and container.started_at == 0
