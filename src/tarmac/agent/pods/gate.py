"""The gate of a node: which pods may come in, what they run in, and what they may grow to."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.interfaces import Handlers
from tarmac.agent.model.pod import Pod
from tarmac.agent.model.settings import PodSettings
from tarmac.agent.pods.admission import handler_refusal, postponed, refusal
from tarmac.api.schema import JsonObject
from tarmac.client.informer import Informer

SHUTTING_DOWN = ("NodeShutdown", "Pod was rejected as the node is shutting down.")


class Gate:
    """Judges pods. `others(uid)` are the pods here but for that one; `closed`: nobody comes in any more."""

    def __init__(
        self,
        settings: PodSettings,
        node: Callable[[], JsonObject],
        handlers: Handlers,
        classes: Informer[JsonObject],
        allocator: Allocator,
        others: Callable[[str], list[Pod]],
    ) -> None:
        self.closed = False
        self.questions: list[Callable[[JsonObject], Refusal | None]] = []
        self.resizes: list[Callable[[Pod, Pod], Postponed | None]] = []
        self._settings = settings
        self._node = node
        self._handlers = handlers
        self._classes = classes
        self._allocator = allocator
        self._others = others

    def refusal(self, pod: Pod) -> Refusal | None:
        """Why a new pod may not run here, if it may not."""
        if self.closed:
            return SHUTTING_DOWN
        for question in self.questions:
            if (why := question(pod.raw)) is not None:
                return why
        if not self._settings.enforce_fit:
            return self._allocator.admit(pod)
        name = pod.spec.get("runtimeClassName") or ""
        try:
            unserved = handler_refusal(name, self.handler(pod), self._handlers)
        except ConfigMissing:
            unserved = None  # the class may come yet: until then there is no sandbox
        others, sysctls = self._others(pod.uid), self._settings.allowed_unsafe_sysctls
        unfit = unserved or refusal(pod, self._node(), others, sysctls, self._allocator.awaited())
        # The allocator comes last: whoever it lets in holds what it was given until it has ended.
        return unfit or self._allocator.admit(pod)

    def fits(self, has: Pod, asks: Pod) -> Postponed | None:
        """Why a pod that runs here cannot have what it now asks for, if it cannot."""
        for question in self.resizes:
            if (why := question(has, asks)) is not None:
                return why
        return postponed(asks, self._node(), self._others(asks.uid))

    def handler(self, pod: Pod) -> str:
        """What runs its sandbox. Raises ConfigMissing."""
        name = pod.spec.get("runtimeClassName")
        if not name:
            return ""
        found = self._classes.get(name)
        if found is None:
            raise ConfigMissing(f'RuntimeClass.node.k8s.io "{name}" not found')
        return found.get("handler") or ""
