"""Admission of pods to this node, their runtime handlers and their resizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.poddependencies import Handlers
from tarmac.agent.model.podsettings import PodSettings
from tarmac.agent.pods.predicates import handler_refusal, memory_postponed, postponed, refusal
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.client.informer import Informer

AdmitCheck = Callable[[JsonObject], Refusal | None]
"""Checks a new pod; a refusal makes it Failed with this reason and message."""
ResizeCheck = Callable[[AgentPod, AgentPod], Postponed | None]
"""Checks a resize, given the pod as allocated and as requested."""
SHUTTING_DOWN = ("NodeShutdown", "Pod was rejected as the node is shutting down.")


class PodAdmission:
    """Admits pods. `others(uid)` are the pods here except that one; while `shutting_down` all pods are rejected."""

    def __init__(
        self,
        settings: PodSettings,
        node: Callable[[], JsonObject],
        handlers: Handlers,
        classes: Informer[JsonObject],
        allocator: Allocator,
        others: Callable[[str], list[AgentPod]],
        admit_checks: Sequence[AdmitCheck] = (),
        resize_checks: Sequence[ResizeCheck] = (),
    ) -> None:
        self.shutting_down = False
        self._admit_checks = admit_checks
        self._resize_checks = resize_checks
        self._settings = settings
        self._node = node
        self._handlers = handlers
        self._classes = classes
        self._allocator = allocator
        self._others = others

    def refusal(self, pod: AgentPod) -> Refusal | None:
        """Return the reason to reject a new pod, or None."""
        if self.shutting_down:
            return SHUTTING_DOWN
        for check in self._admit_checks:
            if (why := check(pod.raw)) is not None:
                return why
        if not self._settings.enforce_fit:
            return self._allocator.admit(pod)
        name = pod.spec.get("runtimeClassName") or ""
        try:
            unserved = handler_refusal(name, self.handler(pod), self._handlers)
        except ConfigMissing:
            unserved = None  # the RuntimeClass may still be created; until then the pod has no sandbox
        others, sysctls = self._others(pod.uid), self._settings.allowed_unsafe_sysctls
        unfit = unserved or refusal(pod, self._node(), others, sysctls, self._allocator.awaited())
        # The allocator must come last: a pod it admits holds its resources until it has ended.
        return unfit or self._allocator.admit(pod)

    def postponement(self, current: AgentPod, requested: AgentPod) -> Postponed | None:
        """Return the reason why a running pod cannot get the resources it now requests, or None."""
        for check in self._resize_checks:
            if (why := check(current, requested)) is not None:
                return why
        if self._is_machine(requested) and (why := memory_postponed(current, requested)) is not None:
            return why
        return postponed(requested, self._node(), self._others(requested.uid))

    def _is_machine(self, pod: AgentPod) -> bool:
        try:
            return self.handler(pod) == MACHINE_CLASS
        except ConfigMissing:
            return False

    def handler(self, pod: AgentPod) -> str:
        """Return the runtime handler of the pod's sandbox. Raises ConfigMissing."""
        name = pod.spec.get("runtimeClassName")
        if not name:
            return ""
        found = self._classes.get(name)
        if found is None:
            raise ConfigMissing(f'RuntimeClass.node.k8s.io "{name}" not found')
        return found.get("handler") or ""
