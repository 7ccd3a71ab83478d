"""What an instance has, and how its containers share it.

An only container has everything. Several share: the pod as a whole requests and is limited to what the instance has,
each container to what its manifest says, and one that says nothing is bounded by the pod alone. Devices cannot be
given to a whole pod, so they are where a container asks for them.
"""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api.compute.instance import Container, Runtime
from tarmac.api.compute.instancetype import InstanceType, is_custom, object_name
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList

_SHARED = ("cpu", "memory")


def instance_amounts(runtime: Runtime, instance_type: Callable[[str], InstanceType | None]) -> ResourceList | None:
    """The amounts of a runtime; None when its type does not exist."""
    written = runtime.resources.instance_type
    if is_custom(written):
        return runtime.resources.requests
    found = instance_type(object_name(written))
    return None if found is None else found.spec.resources


def everything(whole: ResourceList) -> JsonObject:
    """The resources of a container that has the instance to itself."""
    amounts = {name: str(amount) for name, amount in whole.items()}
    return {"requests": amounts, "limits": amounts}


def of_pod(whole: ResourceList) -> JsonObject:
    """The resources of a pod whose containers share."""
    return everything({name: whole[name] for name in _SHARED if name in whole})


def of_container(container: Container) -> JsonObject:
    """A container's own share, as its manifest says it. A device has a limit whenever it has a request."""
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
