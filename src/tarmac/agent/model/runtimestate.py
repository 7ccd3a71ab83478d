"""What the runtime holds for one pod, as one immutable picture."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.runtimes.interface import Container, RuntimeEvent, Sandbox

_SINCE = {
    "created": ("created", "running", "exited"),
    "started": ("running", "exited"),
    "stopped": ("exited",),
}
"""States that a container can be in after it was told of."""


@dataclass(frozen=True, slots=True)
class PodRuntimeState:
    """Sandboxes and containers of a pod, newest first."""

    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[Container, ...] = ()
    broken: frozenset[str] = frozenset()
    """Ids of containers that never ran, and cannot be started any more."""

    def latest(self, name: str, sandbox_id: str | None = None) -> Container | None:
        """The newest container of this name, in any sandbox or in that one."""
        for container in self.containers:
            if container.name == name and sandbox_id in (None, container.sandbox_id):
                return container
        return None

    def attempts(self, name: str) -> int:
        """How many containers of this name there have been, as far as the runtime remembers."""
        return max((each.attempt + 1 for each in self.containers if each.name == name), default=0)

    @property
    def running(self) -> tuple[Container, ...]:
        """Containers that have processes, or may have."""
        return tuple(each for each in self.containers if each.state in ("running", "unknown"))

    def shows(self, event: RuntimeEvent) -> bool:
        """Whether this picture has what an event tells of. An end of a sandbox, and what is gone, is looked at."""
        if any(each.id == event.id for each in self.sandboxes):
            return event.what in ("created", "started")
        state = next((each.state for each in self.containers if each.id == event.id), None)
        return state in _SINCE.get(event.what, ())

    def usable_sandbox(self, host_network: bool) -> Sandbox | None:
        """The one sandbox that containers can be started in: the newest, alone ready, with an address."""
        if not self.sandboxes or sum(each.ready for each in self.sandboxes) != 1:
            return None
        newest = self.sandboxes[0]
        return newest if newest.ready and (host_network or newest.addresses) else None

    @property
    def next_attempt(self) -> int:
        """What a new sandbox is counted as."""
        return max((each.pod.attempt + 1 for each in self.sandboxes), default=0)
