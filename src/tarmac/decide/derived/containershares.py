"""The resources of an instance, and their distribution over its containers.

A single container gets everything. Several containers share: the pod as a whole requests and is limited to the
instance's size, each container to the amounts in its manifest, and a container without amounts is bounded by the pod
alone. Devices cannot be assigned to a whole pod, so they are set on the container that requests them.
"""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api.compute.instance import Container, InstanceRuntime
from tarmac.api.compute.instancetype import InstanceType, is_custom, object_name
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList

_SHARED = ("cpu", "memory")


def instance_amounts(
    runtime: InstanceRuntime, instance_type: Callable[[str], InstanceType | None]
) -> ResourceList | None:
    """Return the amounts of a runtime; None when its instance type does not exist."""
    written = runtime.resources.instance_type
    if is_custom(written):
        return runtime.resources.requests
    found = instance_type(object_name(written))
    return None if found is None else found.spec.resources


def everything(whole: ResourceList) -> JsonObject:
    """Return the resources of the only container of an instance."""
    amounts = {name: str(amount) for name, amount in whole.items()}
    return {"requests": amounts, "limits": amounts}


def of_pod(whole: ResourceList) -> JsonObject:
    """Return the resources of a pod with several containers."""
    return everything({name: whole[name] for name in _SHARED if name in whole})


def of_container(container: Container) -> JsonObject:
    """Return a container's own resources from its manifest. A device with a request also gets a limit."""
    stated = container.resources
    if stated is None:
        return {}
    requests = {name: str(amount) for name, amount in stated.requests.items()}
    limits = {name: str(amount) for name, amount in stated.limits.items()}
    for name, amount in requests.items():
        if name not in _SHARED:
            limits.setdefault(name, amount)
    sides = {"requests": requests, "limits": limits}
    return {side: amounts for side, amounts in sides.items() if amounts}
