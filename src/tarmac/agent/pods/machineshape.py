"""What a pod must look like to be a virtual machine: as the controller of Instances writes it, and no other way.

A pod of a class for machines that says more than that would be run as if it had not said it: containers that never
start, a network of the host that the guest does not have. So it is refused, for good.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import Pod
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.schema import JsonObject

REASON = "NotAMachine"
_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


def machine_check(handler: Callable[[JsonObject], str], machines: str) -> Callable[[JsonObject], Refusal | None]:
    """A question to every new pod. `handler` tells what runs it, `machines` is what runs machines."""

    def check(raw: JsonObject) -> Refusal | None:
        try:
            if handler(raw) != machines:
                return None
        except ConfigMissing:
            return None  # without its class it has no sandbox either
        why = not_a_machine(Pod(raw))
        return (
            (REASON, f"Pod is not a virtual machine: {why}. Create a Workload with runtime.virtualMachine")
            if why
            else None
        )

    return check


def not_a_machine(pod: Pod) -> str:
    """What is wrong with it; empty when it is one."""
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


def _images(pod: Pod) -> JsonObject:
    try:
        found = msgspec.json.decode(pod.annotations.get(ANNOTATION_MACHINE_IMAGES, "{}"))
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}
