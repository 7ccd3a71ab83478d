"""The overhead that an instance's RuntimeClass adds to the resources it is charged.

A virtual machine uses its own memory plus that of the hypervisor process, which grows with the machine's memory.
Admission writes the overhead into the Pod. Quotas and plans, which count an instance before it has a Pod, add the same
overhead: otherwise they would admit instances that have their Pods rejected later.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.compute.instance import InstanceRuntime
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS
from tarmac.api.kubernetes.core.pods.podresources import add
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS, NVIDIA_HANDLER, SANDBOX_CLASS, overhead_of, proxied_in
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity


def runtime_class_of(runtime: InstanceRuntime, annotations: Mapping[str, str]) -> str:
    """Return the name of the RuntimeClass of an instance's Pod."""
    if runtime.virtual_machine:
        return MACHINE_CLASS
    return annotations.get(ANNOTATION_RUNTIME_CLASS) or (NVIDIA_HANDLER if _requests_gpus(runtime) else SANDBOX_CLASS)


def _requests_gpus(runtime: InstanceRuntime) -> bool:
    containers = (*runtime.sandbox.containers, *runtime.sandbox.init_containers) if runtime.sandbox else ()
    shares = (each.resources.requests for each in containers if each.resources)
    return bool(proxied_in(runtime.resources.requests, *shares))


def charged(amounts: ResourceList, runtime_class: JsonObject | None) -> ResourceList:
    """Return the amounts that an instance is charged, overhead included."""
    total = dict(amounts)
    overhead = overhead_of(runtime_class, amounts.get("memory"))
    add(total, {name: Quantity.parse(amount) for name, amount in overhead.items()})
    return total
