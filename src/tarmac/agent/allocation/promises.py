"""The allocated resources of a pod, and in-place resizes.

A changed spec takes effect in two steps: the node allocates the resources if they fit (*allocated*), and then applies
them to the containers (*applied*). Until then a condition reports the resize. Decisions about the pod use the allocated
resources, never the requested ones. Allocations are stored in the pod's checkpoint (`tarmac.agent.pods.checkpoints`),
so the next agent keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tarmac.agent.model.allotment import Postponed
from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.api.schema import JsonObject

Resizes = Mapping[str, JsonObject]


Fits = Callable[[AgentPod, AgentPod], Postponed | None]
"""Returns the reason why a pod, as allocated, cannot be resized to its spec."""

WHOLE_POD: Final = ""
"""The key of pod-level resources."""


class PodPromises:
    """The allocated resources of one pod."""

    def __init__(self, pod: AgentPod, promised: Resizes | None = None) -> None:
        # The checkpoint wins: the spec may request a resize that no agent has allocated yet.
        self.promised: dict[str, JsonObject] = {**resources_of(pod), **(promised or {})}
        self.postponed: Postponed | None = None

    def consider(self, pod: AgentPod, fits: Fits) -> bool:
        """Allocate the resources of a new version of the pod if they fit; return True if they changed."""
        asked = resources_of(pod)
        new = {name: each for name, each in asked.items() if self.promised.get(name) != each}
        self.postponed = fits(self.effective(pod), pod) if new else None
        if not new or self.postponed is not None:
            return False
        self.promised.update(asked)
        return True

    def effective(self, pod: AgentPod) -> AgentPod:
        """Return the pod with its allocated resources."""
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
        return AgentPod({**pod.raw, "spec": spec})

    def conditions(self, pod: AgentPod, applied: Resizes) -> list[JsonObject]:
        """Return the pod conditions of a resize."""
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


def resources_of(pod: AgentPod) -> dict[str, JsonObject]:
    """Return the resources of the pod, of its containers and of its sidecars, by name."""
    lasting = [*pod.containers, *(each for each in pod.init_containers if is_sidecar(each))]
    named = {each["name"]: each.get("resources") or {} for each in lasting}
    return {WHOLE_POD: pod.spec.get("resources") or {}, **named}


def reported_resources(status: JsonObject) -> dict[str, JsonObject]:
    """Return the limits and requests of each running container in a pod's status, by container id.

    Both sides are present if the status has resources at all: an absent side was in effect as an absent one.
    """
    found: dict[str, JsonObject] = {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        resources, identity = each.get("resources"), (each.get("containerID") or "").rpartition("://")[2]
        if resources is not None and identity and "running" in (each.get("state") or {}):
            found[identity] = {side: resources.get(side) or {} for side in ("limits", "requests")}
    return found
