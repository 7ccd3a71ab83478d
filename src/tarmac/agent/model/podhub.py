"""The pod loop as seen by the parts that it needs itself, and that are therefore built before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject


class PodLoop(Protocol):
    """The queries of the pod loop. Implemented by `PodManager`."""

    def pods(self) -> Sequence[JsonObject]: ...
    def allocated(self) -> Sequence[JsonObject]: ...
    def beside(self, uid: str) -> Sequence[AgentPod]: ...
    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None: ...
    def sandbox_id(self, pod: JsonObject) -> str | None: ...
    def handler(self, pod: JsonObject) -> str: ...
    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None: ...
    def wake(self, uid: str | None = None) -> None: ...


class PodHub:
    """Passes queries to the pod loop, whose constructor gets this hub and opens it. No query may come earlier."""

    def __init__(self) -> None:
        self._opened: PodLoop | None = None

    def open(self, loop: PodLoop) -> None:
        """Pass queries to this loop from now on."""
        self._opened = loop

    @property
    def _loop(self) -> PodLoop:
        assert self._opened is not None, "the pod loop has been built"
        return self._opened

    def pods(self) -> Sequence[JsonObject]:
        """Return all pods bound here with their current status."""
        return self._loop.pods()

    def allocated(self) -> Sequence[JsonObject]:
        """Return all pods bound here, with allocated resources and current status."""
        return self._loop.allocated()

    def beside(self, uid: str) -> Sequence[AgentPod]:
        """Return all pods that use resources here, except the one with this uid."""
        return self._loop.beside(uid)

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None:
        """Return one pod with its current status."""
        return self._loop.find(namespace, name, uid)

    def sandbox_id(self, pod: JsonObject) -> str | None:
        """Return the runtime's id of the pod's ready sandbox, if any."""
        return self._loop.sandbox_id(pod)

    def handler(self, pod: JsonObject) -> str:
        """Return the runtime handler of a pod's RuntimeClass. Raises ConfigMissing."""
        return self._loop.handler(pod)

    def evict(self, pod: JsonObject, reason: str, message: str, grace: float | None = None) -> None:
        """Evict a pod."""
        self._loop.evict(pod, reason, message, grace)

    def wake(self, uid: str | None = None) -> None:
        """Reconcile and retry one pod, or all, at once."""
        self._loop.wake(uid)
