"""Admits pods to the QoS classes they request, and decides class changes of running pods. Pure.

Simulated and real nodes both use this module, so their messages are the same. All classes are checked before any change
is applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tarmac.api.kubernetes.core.nodeclasses import OfferedClasses
from tarmac.api.kubernetes.core.pods.podclasses import (
    asks_for_classes,
    classes_of_containers,
    container_classes,
    pod_classes,
)
from tarmac.api.schema import JsonObject
from tarmac.decide.qosclasses import refusals
from tarmac.decide.qosclasses.counting import Place, Places, places

UNAVAILABLE = "ClassUnavailable"
EXHAUSTED = "ClassExhausted"


@dataclass(frozen=True, slots=True)
class ClassesOfNode:
    """Inputs of admission: the classes that the node offers, and the places taken by other pods.

    `own_kernel`: all processes of the pod are in one cgroup, so they can be in one class of each type only. `lenient`:
    classes that are not offered are ignored.
    """

    node: str
    offered: OfferedClasses
    taken: Mapping[Place, int]
    own_kernel: bool = False
    lenient: bool = False


def refusal(pod: JsonObject, here: ClassesOfNode) -> tuple[str, str] | None:
    """Return reason and message for a pod that cannot be admitted; None if it can."""
    if not asks_for_classes(pod):
        return None
    requested = places(pod, here.offered.pod)
    message = _unavailable(requested, here) or _misplaced(pod, here) or _crowded(pod, here)
    if message:
        return UNAVAILABLE, message
    message = _full(requested, here)
    return (EXHAUSTED, message) if message else None


def postponement(
    pod: JsonObject, before: JsonObject, here: ClassesOfNode
) -> tuple[Literal["Infeasible", "Deferred"], str] | None:
    """Return why a running pod cannot change to the requested classes; `before` is the pod with its present ones."""
    changed = set(_changes(pod, before, here.offered.pod))
    if not changed:
        return None
    for kind, _ in sorted(changed):
        offered = here.offered.find(kind)
        if offered is not None and offered.immutable:
            return "Infeasible", f"classes of type {kind} cannot be changed on {here.node} while a container runs"
    new = {(kind, name): 1 for kind, name in changed if name}
    message = _unavailable(new, here) or _misplaced(pod, here) or _crowded(pod, here)
    if message:
        return "Infeasible", message
    had = places(before, here.offered.pod)
    requested = {place: count for place, count in places(pod, here.offered.pod).items() if count > had.get(place, 0)}
    message = _full(requested, here)
    return ("Deferred", message) if message else None


def taken_by(pods: Iterator[JsonObject] | Collection[JsonObject], pod_types: Collection[str]) -> Places:
    """Return the places taken by pods."""
    found: Places = {}
    for pod in pods:
        for place, count in places(pod, pod_types).items():
            found[place] = found.get(place, 0) + count
    return found


def _unavailable(requested: Mapping[Place, int], here: ClassesOfNode) -> str:
    if here.lenient:
        return ""
    for kind, name in sorted(requested):
        known = here.offered.find(kind)
        there = known.classes if known else {}
        if name not in there:
            return refusals.not_offered((kind, name), here.node, there)
    return ""


def _misplaced(pod: JsonObject, here: ClassesOfNode) -> str:
    """Return a message if a container requests a class of a type that the node offers for whole pods only."""
    for _, classes in classes_of_containers(pod, here.offered.pod) if not here.lenient else ():
        for kind, name in sorted(classes.items()):
            if kind in here.offered.pod:
                return refusals.for_whole_pods((kind, name), here.node)
    return ""


def _crowded(pod: JsonObject, here: ClassesOfNode) -> str:
    if not here.own_kernel:
        return ""
    of_type: dict[str, set[str]] = {}
    for _, classes in classes_of_containers(pod, here.offered.pod):
        for kind, name in classes.items():
            of_type.setdefault(kind, set()).add(name)
    for kind, names in sorted(of_type.items()):
        if len(names) > 1:
            listed = " and ".join(sorted(names))
            return f"containers of a pod with its own kernel are in one class of type {kind}, not in {listed}"
    return ""


def _full(requested: Mapping[Place, int], here: ClassesOfNode) -> str:
    for (kind, name), count in sorted(requested.items()):
        known = here.offered.find(kind)
        most = known.classes.get(name) if known else None
        used = here.taken.get((kind, name), 0)
        if most is not None and used + count > most:
            return refusals.full((kind, name), here.node, count, used, most)
    return ""


def _changes(pod: JsonObject, before: JsonObject, pod_types: Collection[str]) -> Iterator[Place]:
    """Yield type and new class of each change; an empty class for a removal."""
    pairs = [(pod_classes(pod, pod_types), pod_classes(before, pod_types))]
    for container, classes in classes_of_containers(pod, pod_types):
        pairs.append((classes, container_classes(before, container["name"], pod_types)))
    for new, old in pairs:
        for kind in {*new, *old}:
            if new.get(kind) != old.get(kind):
                yield kind, new.get(kind, "")
