"""Classes in quotas: what pods cost in places of classes, and what a quota says about types.

Places are charged like any amount, under names that no resource can have: the list of the quota that counts them, a
blank, type and class. A quota counts a type by pods or by containers. Which of the two a node does is not known when a
pod is made, so neither is a way around a quota: whatever class a pod names anywhere counts as used, at least once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, named_classes
from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.decide.classes.counting import places

_ONE = Quantity.parse(1)


def charge_name(level: str, kind: str, name: str) -> str:
    """What a place of a class is charged under."""
    return f"{level} {kind}/{name}"


def shown_name(name: str) -> str:
    """A name of a charge as messages have it: `blockio/slow`, and that of an amount as it is."""
    return name.partition(" ")[2] or name


def class_charges(pod: JsonObject) -> ResourceList:
    """What a pod costs in places."""
    if not asks_for_classes(pod):
        return {}
    counted = places(pod)
    found: ResourceList = {}
    for kind, name in set(named_classes(pod)):
        found[charge_name(POD_LEVEL, kind, name)] = _ONE
        taken = counted.get((kind, name), 1)
        found[charge_name(CONTAINER_LEVEL, kind, name)] = Quantity.parse(taken) if taken > 1 else _ONE
    return found


def limits_of(spec: JsonObject) -> Iterator[tuple[str, Quantity | None]]:
    """The name of each class that a quota lists, and how many may be in it; None: any number."""
    for level in CLASS_LISTS:
        for item in spec.get(level) or ():
            for each in item.get("classes") or ():
                capacity = each.get("capacity")
                limit = None if capacity is None else Quantity.parse(capacity)
                yield charge_name(level, item["name"], each["name"]), limit


def forbidden_class(spec: JsonObject, pod: JsonObject, before: JsonObject | None) -> str | None:
    """Why a pod may not have a class that it names, and did not name before; None if it may have them all."""
    listed = {item["name"]: item for level in CLASS_LISTS for item in spec.get(level) or ()}
    if not listed or not asks_for_classes(pod):
        return None
    had = set(named_classes(before)) if before is not None else set[tuple[str, str]]()
    for kind, name in sorted({*named_classes(pod)} - had):
        if kind in listed:
            allowed = [each["name"] for each in listed[kind].get("classes") or ()]
            if name not in allowed:
                shown = ", ".join(sorted(allowed)) or "none"
                return f"class {kind}/{name} is not allowed; allowed: {shown}"
    return None


def usage(spec: JsonObject, used: ResourceList) -> JsonObject:
    """The lists of a quota's status."""
    found: JsonObject = {}
    for level in CLASS_LISTS:
        if types := spec.get(level):
            found[level] = [{"name": item["name"], **_classes(level, item, used)} for item in types]
    return found


def shown(lists: JsonObject, field: str) -> dict[str, str]:
    """Capacity or use of classes that have a capacity, for `hard` and `used`: `kubectl describe` prints only these."""
    return {
        f"classes.{item['name']}/{each['name']}": str(each[field])
        for level in CLASS_LISTS
        for item in lists.get(level) or ()
        for each in item.get("classes") or ()
        if each.get("capacity") is not None
    }


def _classes(level: str, item: JsonObject, used: ResourceList) -> JsonObject:
    listed = item.get("classes")
    if not listed:
        return {}
    counts = [used[charge_name(level, item["name"], each["name"])].value() for each in listed]
    return {"classes": [{**each, "used": count} for each, count in zip(listed, counts, strict=True)]}
