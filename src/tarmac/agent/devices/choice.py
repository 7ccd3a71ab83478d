"""Chooses the devices of a container, as kubelet does. Pure.

First devices of finished init containers of the same pod, then those that the plugin prefers, then any free ones, in
the order of the plugin's list. An init container that ends leaves its devices to later containers; a sidecar and a
regular container keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.api.kubernetes.resourcenames import is_extended
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity


class DeviceRequest(NamedTuple):
    """A number of devices of one kind, for one container."""

    container: str
    resource: str
    number: int


class ChosenDevices(NamedTuple):
    """The devices of a container in order, and the number of reused ones at the front."""

    ids: tuple[str, ...]
    reused: int


class NotEnoughDevices(Exception):
    """Fewer devices are free than requested; the text is kubelet's."""


def wanted_by(pod: AgentPod) -> Iterator[DeviceRequest]:
    """Yield the extended resources that the pod's containers request, in the order of allocation."""
    for container in (*pod.init_containers, *pod.containers):
        limits: JsonObject = (container.get("resources") or {}).get("limits") or {}
        for resource in sorted(limits):
            number = Quantity.parse(limits[resource]).value() if is_extended(resource) else 0
            if number > 0:
                yield DeviceRequest(container["name"], resource, number)


def choose(
    wanted: DeviceRequest, reusable: Iterable[str], free: Collection[str], preferred: Iterable[str] = ()
) -> ChosenDevices:
    """Return the devices for one container. `free` in the plugin's order. Raises NotEnoughDevices."""
    again = tuple(sorted(reusable))[: wanted.number]
    needed = wanted.number - len(again)
    available = dict.fromkeys(each for each in free if each not in again)
    if len(available) < needed:
        raise NotEnoughDevices(
            f"requested number of devices unavailable for {wanted.resource}. "
            f"Requested: {needed}, Available: {len(available)}"
        )
    liked = dict.fromkeys(each for each in preferred if each in available)
    return ChosenDevices((*again, *tuple({**liked, **available})[:needed]), len(again))


def reusable_after(pod: AgentPod, container: str, held: Mapping[str, Collection[str]]) -> set[str]:
    """Return the devices of one kind that this container may reuse; `held`: those of each container of the pod."""
    found: set[str] = set()
    for each in (*pod.init_containers, *pod.containers):
        if each["name"] == container:
            break
        ends = each in pod.init_containers and not is_sidecar(each)
        has = held.get(each["name"], ())
        found = found | set(has) if ends else found - set(has)
    return found
