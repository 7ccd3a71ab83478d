"""Nodes with classes and exclusive CPUs, and pods that request them, for the scheduler's rate.

Every node offers two types of four classes; one class has a capacity. Half of the pods request a class, each of the
eight in turn, and another quarter two exclusive CPUs. To fill the class with a capacity nearly, one pod on each of nine
nodes in ten takes all its places there.
"""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, RDT, default_annotation
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE

CLASSES: Final = {BLOCKIO: ("slow", "normal", "fast", "idle"), RDT: ("gold", "silver", "bronze", "iron")}
LIMITED: Final = (BLOCKIO, "slow")
_ASKED: Final = [(kind, name) for kind, names in CLASSES.items() for name in names]


def places(nodes: int, pods: int) -> int:
    """Return the places of the limited class on each node: a tenth of the nodes has room for all its pods, and more."""
    return -(-pods * 11 // (16 * nodes)) + 1


def status(capacity: int) -> dict[str, Any]:
    """Return the additional fields of a node's status."""
    return {
        "containerClassResources": [
            {"name": kind, "classes": [_offered(kind, name, capacity) for name in names]}
            for kind, names in CLASSES.items()
        ]
    }


def given_away(cpus: int) -> dict[str, str]:
    """Return the additional entries of its capacity."""
    return {CPU_EXCLUSIVE: str(cpus)}


def ask(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the pod with the requests of the pod of this number."""
    if number % 2 == 0:
        kind, name = _ASKED[number // 2 % len(_ASKED)]
        pod["metadata"]["annotations"] = {default_annotation(kind): name}
    elif number % 4 == 1:
        amounts = {"cpu": "2", "memory": "128Mi"}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod


def filler(number: int, capacity: int) -> dict[str, Any]:
    """Return a pod with a node, which takes all places of the limited class there."""
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
