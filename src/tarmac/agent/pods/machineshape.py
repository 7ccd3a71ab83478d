"""Validates pods of the virtual machine RuntimeClass: only the form that the Instance controller writes is accepted.

The machine runtime would ignore other settings: containers that never start, a host network that the guest does not
have. Such a pod is rejected for good.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.schema import JsonObject

REASON = "NotAMachine"
_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


def machine_check(handler: Callable[[JsonObject], str], machines: str) -> Callable[[JsonObject], Refusal | None]:
    """Return an admission check.

    `handler` gives the runtime handler of a pod, `machines` is the handler of machines.
    """

    def check(raw: JsonObject) -> Refusal | None:
        try:
            if handler(raw) != machines:
                return None
        except ConfigMissing:
            return None  # without its RuntimeClass the pod gets no sandbox either
        why = not_a_machine(AgentPod(raw))
        return (
            (REASON, f"Pod is not a virtual machine: {why}. Create a Workload with runtime.virtualMachine")
            if why
            else None
        )

    return check


def not_a_machine(pod: AgentPod) -> str:
    """Return the defect of the pod as a machine; empty if there is none."""
    if shared := next((each for each in _HOST if pod.spec.get(each)), ""):
        return f"spec.{shared} is set"
    if pod.init_containers or len(pod.containers) != 1:
        return "it has other containers beside one"
    [container] = pod.containers
    if not container.get("volumeDevices"):
        return "spec.containers[0].volumeDevices has no disk to boot from"
    if container["image"] not in _images(pod):
        return f"the annotation {ANNOTATION_MACHINE_IMAGES} does not say what image {container['image']} is"
    return ""


def _images(pod: AgentPod) -> JsonObject:
    try:
        found = msgspec.json.decode(pod.annotations.get(ANNOTATION_MACHINE_IMAGES, "{}"))
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}
