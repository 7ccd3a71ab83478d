"""What pods are told about their classes: each thing once, for as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.agent.model.pod import Pod
from tarmac.agent.stats.summary import Sample
from tarmac.client.events import Recorder


class ClassEvents:
    """Events of pods, and how often a class was found not to be in effect."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._said: dict[str, set[tuple[str, ...]]] = {}  # by pod
        self._ineffective: dict[tuple[str, str], int] = {}  # by type and class

    def ignored(self, pod: Pod, key: str, use: str) -> None:
        """An annotation is not handed on to the runtime."""
        message = f"The annotation {key} is not handed on to the runtime; ask by {use}, or by resources.classes"
        self._say(pod, "ClassAnnotationIgnored", message, key)

    def vanished(self, pod: Pod, container: str, kind: str, name: str) -> None:
        """A class is not offered any more."""
        message = f"Class {kind}/{name} of container {container} is not offered any more; what runs stays as it is"
        self._say(pod, "ClassVanished", message, container, kind, name)

    def not_effective(self, pod: Pod, container: str, kind: str, name: str) -> None:
        """A class was asked for, and the kernel or the runtime says otherwise."""
        whose = f"Container {container}" if container else "The pod"
        if self._say(pod, "ClassNotEffective", f"{whose} is not in class {kind}/{name}", container, kind):
            self._ineffective[kind, name] = self._ineffective.get((kind, name), 0) + 1

    def effective(self, pod: Pod, container: str, kind: str) -> None:
        """It is in effect: if it ceases to be, that is news."""
        self._said.get(pod.uid, set()).discard(("ClassNotEffective", container, kind))

    def forget(self, uid: str) -> None:
        """The pod is over."""
        self._said.pop(uid, None)

    def metrics(self) -> Iterator[Sample]:
        """How often classes were found not to be in effect."""
        for (kind, name), count in sorted(self._ineffective.items()):
            yield "tarmac_node_class_ineffective_total", "counter", {"type": kind, "class": name}, count

    def _say(self, pod: Pod, reason: str, message: str, *what: str) -> bool:
        """Whether it is news."""
        said = self._said.setdefault(pod.uid, set())
        if (reason, *what) in said:
            return False
        said.add((reason, *what))
        self._recorder.event(pod.reference, "Warning", reason, message)
        return True
