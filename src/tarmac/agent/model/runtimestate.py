"""The runtime state of one pod, as an immutable snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.runtimes.interface import RuntimeContainer, RuntimeEvent, RuntimeSandbox

_SINCE = {
    "created": ("created", "running", "exited"),
    "started": ("running", "exited"),
    "stopped": ("exited",),
}
"""States that a container can have after an event of this type."""


@dataclass(frozen=True, slots=True)
class PodRuntimeState:
    """Sandboxes and containers of a pod, newest first."""

    sandboxes: tuple[RuntimeSandbox, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
    broken: frozenset[str] = frozenset()
    """Ids of containers that never ran and can no longer be started."""

    def latest(self, name: str, sandbox_id: str | None = None) -> RuntimeContainer | None:
        """Return the newest container of this name, in any or in the given sandbox."""
        for container in self.containers:
            if container.name == name and sandbox_id in (None, container.sandbox_id):
                return container
        return None

    def attempts(self, name: str) -> int:
        """Return the number of attempts of this container, as far as the runtime has them."""
        return max((each.attempt + 1 for each in self.containers if each.name == name), default=0)

    @property
    def running(self) -> tuple[RuntimeContainer, ...]:
        """Containers that have or may have processes."""
        return tuple(each for each in self.containers if each.state in ("running", "unknown"))

    def shows(self, event: RuntimeEvent) -> bool:
        """Return True if the snapshot includes the event. False for an ended sandbox and for removed objects."""
        if any(each.id == event.id for each in self.sandboxes):
            return event.what in ("created", "started")
        state = next((each.state for each in self.containers if each.id == event.id), None)
        return state in _SINCE.get(event.what, ())

    def usable_sandbox(self, host_network: bool) -> RuntimeSandbox | None:
        """Return the sandbox that containers can be started in: the newest, the only ready one, with an address."""
        # Two ready ones may be left by an agent that was killed while it replaced one: both are stopped, and a new one
        # is made.
        if not self.sandboxes or sum(each.ready for each in self.sandboxes) != 1:
            return None
        newest = self.sandboxes[0]
        return newest if newest.ready and (host_network or newest.addresses) else None

    @property
    def next_attempt(self) -> int:
        """The attempt number of a new sandbox."""
        return max((each.pod.attempt + 1 for each in self.sandboxes), default=0)
