"""What the RuntimeClass of an instance adds to what it is charged.

A virtual machine has its own memory, and beside it that of the program that runs it. Admission writes the overhead of
the class into the Pod. Whoever counts an instance before it has a Pod adds the same, so that nothing is let through, or
called possible, that the Pod is then refused for: quotas, and plans.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import Runtime
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS
from tarmac.api.kubernetes.core.pods.podresources import add
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS, SANDBOX_CLASS
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity


def runtime_class_of(runtime: Runtime, annotations: Mapping[str, str]) -> str:
    """The name of the class that an instance's Pod has."""
    return MACHINE_CLASS if runtime.virtual_machine else annotations.get(ANNOTATION_RUNTIME_CLASS, SANDBOX_CLASS)


def charged(amounts: ResourceList, runtime_class: JsonObject | None) -> ResourceList:
    """What an instance with these amounts counts as."""
    total = dict(amounts)
    add(total, {name: Quantity.parse(amount) for name, amount in fixed_overhead(runtime_class).items()})
    return total


def fixed_overhead(runtime_class: JsonObject | None) -> Mapping[str, str]:
    """What every Pod of a class is charged beside its own."""
    return ((runtime_class or {}).get("overhead") or {}).get("podFixed") or {}
