"""Annotations on containers, under kubelet's keys, so that tools for kubelet understand them.

They contain everything needed to terminate a container after its pod's definition was lost.
"""

from __future__ import annotations

import msgspec

from tarmac.agent.containers.identity import container_hash
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.labels import DISK_VOLUMES, INSTANCE_UID

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_POLICY = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"
TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"


def container_notes(pod: AgentPod, container: JsonObject, attempt: int) -> dict[str, str]:
    """The annotations of a container."""
    found = {
        HASH: container_hash(container),
        RESTART_COUNT: str(attempt),
        TERMINATION_PATH: container.get("terminationMessagePath") or "",
        TERMINATION_POLICY: container.get("terminationMessagePolicy") or "",
    }
    grace = pod.spec.get("terminationGracePeriodSeconds")
    if grace is not None:
        found[TERMINATION_GRACE] = str(grace)
    pre_stop = (container.get("lifecycle") or {}).get("preStop")
    if pre_stop:
        found[PRE_STOP] = msgspec.json.encode(pre_stop).decode()
    owners = pod.raw["metadata"].get("ownerReferences") or ()
    if owner := next((each for each in owners if each.get("controller") and each["kind"] == "Instance"), None):
        found[INSTANCE_UID] = owner["uid"]
    if devices := container.get("volumeDevices"):
        found[DISK_VOLUMES] = msgspec.json.encode({each["devicePath"]: each["name"] for each in devices}).decode()
    if container.get("ports"):
        found[PORTS] = msgspec.json.encode(container["ports"]).decode()
    return found
