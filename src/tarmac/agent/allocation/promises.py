"""The resources a pod has been promised, and changing them while it runs.

What a pod's spec asks for is not yet what it has: the node first promises it (*allocated*), if it fits beside the
others, and then gives it to the containers (*applied*). Until then the pod says so in a condition. Decisions about the
pod are made on the promised resources, never on the asked ones. Promises are kept on disk with the pod's definition
(`tarmac.agent.pods.checkpoints`): the next agent keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tarmac.agent.model.allotment import Postponed
from tarmac.agent.model.pod import Pod, is_sidecar
from tarmac.api.schema import JsonObject

Resizes = Mapping[str, JsonObject]


Fits = Callable[[Pod, Pod], Postponed | None]
"""Why a pod, as it was promised, cannot become as it asks."""

WHOLE_POD: Final = ""
"""The name under which the resources of the pod as a whole are kept."""


class PodPromises:
    """The resources one pod has been promised."""

    def __init__(self, pod: Pod, promised: Resizes | None = None) -> None:
        self.promised: dict[str, JsonObject] = {**resources_of(pod), **(promised or {})}
        self.postponed: Postponed | None = None

    def consider(self, pod: Pod, fits: Fits) -> bool:
        """Promise what a new version of the pod asks for, if that can be; whether something new was promised."""
        asked = resources_of(pod)
        new = {name: each for name, each in asked.items() if self.promised.get(name) != each}
        self.postponed = fits(self.effective(pod), pod) if new else None
        if not new or self.postponed is not None:
            return False
        self.promised.update(asked)
        return True

    def effective(self, pod: Pod) -> Pod:
        """The pod with the resources it has been promised."""
        if all(self.promised.get(name, each) == each for name, each in resources_of(pod).items()):
            return pod
        spec = {**pod.spec}
        if self.promised.get(WHOLE_POD):
            spec["resources"] = self.promised[WHOLE_POD]
        else:
            spec.pop("resources", None)
        for field in ("containers", "initContainers"):
            if pod.spec.get(field):
                spec[field] = [self._held(each) for each in pod.spec[field]]
        return Pod({**pod.raw, "spec": spec})

    def conditions(self, pod: Pod, applied: Resizes) -> list[JsonObject]:
        """What the pod's status says of a resize."""
        generation = {"observedGeneration": pod.generation} if pod.generation else {}
        found: list[JsonObject] = []
        if self.postponed is not None:
            stated = {"reason": self.postponed.reason, "message": self.postponed.message}
            found.append({"type": "PodResizePending", "status": "True", **stated, **generation})
        if any(name in applied and applied[name] != each for name, each in self.promised.items()):
            found.append({"type": "PodResizeInProgress", "status": "True", **generation})
        return found

    def _held(self, container: JsonObject) -> JsonObject:
        return {**container, "resources": self.promised.get(container["name"], container.get("resources") or {})}


def resources_of(pod: Pod) -> dict[str, JsonObject]:
    """The resources of the pod as a whole and of the containers that last, by name."""
    lasting = [*pod.containers, *(each for each in pod.init_containers if is_sidecar(each))]
    named = {each["name"]: each.get("resources") or {} for each in lasting}
    return {WHOLE_POD: pod.spec.get("resources") or {}, **named}
