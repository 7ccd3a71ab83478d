"""Events of pods about their classes: each condition once, for as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.stats.summary import Sample
from tarmac.client.eventrecorder import Recorder


class ClassEvents:
    """Emits events of pods, and counts classes that were not in effect."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._reported: dict[str, set[tuple[str, ...]]] = {}  # by pod
        self._ineffective: dict[tuple[str, str], int] = {}  # by type and class

    def ignored(self, pod: AgentPod, key: str, use: str) -> None:
        """Report an annotation that is not forwarded to the runtime."""
        message = f"The annotation {key} is not handed on to the runtime; ask by {use}, or by resources.classes"
        self._event(pod, "ClassAnnotationIgnored", message, key)

    def vanished(self, pod: AgentPod, container: str, kind: str, name: str) -> None:
        """Report a class that is not offered any more."""
        holder = f"container {container}" if container else "the pod"
        message = f"Class {kind}/{name} of {holder} is not offered any more; what runs stays as it is"
        self._event(pod, "ClassVanished", message, container, kind, name)

    def not_effective(self, pod: AgentPod, container: str, kind: str, name: str) -> None:
        """Report a requested class that is not in effect in the kernel or the runtime."""
        whose = f"Container {container}" if container else "The pod"
        if self._event(pod, "ClassNotEffective", f"{whose} is not in class {kind}/{name}", container, kind):
            self._ineffective[kind, name] = self._ineffective.get((kind, name), 0) + 1

    def effective(self, pod: AgentPod, container: str, kind: str) -> None:
        """Record that a class is in effect, so that its next failure is reported."""
        self._reported.get(pod.uid, set()).discard(("ClassNotEffective", container, kind))

    def forget(self, uid: str) -> None:
        """Drop the state of an ended pod."""
        self._reported.pop(uid, None)

    def metrics(self) -> Iterator[Sample]:
        """Yield how often classes were not in effect."""
        for (kind, name), count in sorted(self._ineffective.items()):
            yield "tarmac_node_class_ineffective_total", "counter", {"type": kind, "class": name}, count

    def _event(self, pod: AgentPod, reason: str, message: str, *what: str) -> bool:
        """Emit an event. Return False if it was emitted before."""
        reported = self._reported.setdefault(pod.uid, set())
        if (reason, *what) in reported:
            return False
        reported.add((reason, *what))
        self._recorder.event(pod.reference, "Warning", reason, message)
        return True
