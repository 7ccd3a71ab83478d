"""Nodes with classes and CPUs to give away, and pods that ask for them, for the scheduler's rate.

Every node offers two types of four classes; one class has a capacity. Half of the pods ask for a class, each of the
eight in turn, and another quarter for two CPUs to themselves. When the class with a capacity is to be nearly full, one
pod on each of nine nodes in ten takes all its places there.
"""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, RDT, default_annotation
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE

CLASSES: Final = {BLOCKIO: ("slow", "normal", "fast", "idle"), RDT: ("gold", "silver", "bronze", "iron")}
LIMITED: Final = (BLOCKIO, "slow")
_ASKED: Final = [(kind, name) for kind, names in CLASSES.items() for name in names]


def places(nodes: int, pods: int) -> int:
    """Of the limited class on each node: a tenth of the nodes has room for all pods that ask for it, and some more."""
    return -(-pods * 11 // (16 * nodes)) + 1


def status(capacity: int) -> dict[str, Any]:
    """What a node says beyond its amounts."""
    return {
        "containerClassResources": [
            {"name": kind, "classes": [_offered(kind, name, capacity) for name in names]}
            for kind, names in CLASSES.items()
        ]
    }


def given_away(cpus: int) -> dict[str, str]:
    """What stands in its capacity."""
    return {CPU_EXCLUSIVE: str(cpus)}


def ask(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """The pod with what the pod of this number asks for."""
    if number % 2 == 0:
        kind, name = _ASKED[number // 2 % len(_ASKED)]
        pod["metadata"]["annotations"] = {default_annotation(kind): name}
    elif number % 4 == 1:
        amounts = {"cpu": "2", "memory": "128Mi"}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod


def filler(number: int, capacity: int) -> dict[str, Any]:
    """A pod that has a node, and all places of the limited class there."""
    kind, name = LIMITED
    containers = [{"name": f"c{each}", "image": "registry.example/app:1"} for each in range(capacity)]
    return {
        "metadata": {
            "name": f"filler-{number}",
            "namespace": "default",
            "annotations": {default_annotation(kind): name},
        },
        "spec": {"nodeName": f"node-{number}", "containers": containers},
    }


def _offered(kind: str, name: str, capacity: int) -> dict[str, Any]:
    return {"name": name, "capacity": capacity} if (kind, name) == LIMITED else {"name": name}
