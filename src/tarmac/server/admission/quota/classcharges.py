"""QoS classes in quotas: charges of pods for classes, and the limits of quotas.

Places in classes are charged like any amount, under names that no resource can have: the quota's list that counts them,
a space, type and class. A quota counts a type by pods or by containers. It is unknown at creation which of the two a
node does, so neither can be used to evade a quota: every class that a pod names counts as used, at least once.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, named_classes
from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.decide.qosclasses.counting import places

_ONE = Quantity.parse(1)


def charge_name(level: str, kind: str, name: str) -> str:
    """Return the charge name of a class."""
    return f"{level} {kind}/{name}"


def shown_name(name: str) -> str:
    """Return a charge name for messages: `blockio/slow` for a class, a resource's name unchanged."""
    return name.partition(" ")[2] or name


def class_charges(pod: JsonObject) -> ResourceList:
    """Return a pod's charges for classes."""
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
    """Yield the charge name of each class that a quota lists, with its capacity; None: unlimited."""
    for level in CLASS_LISTS:
        for item in spec.get(level) or ():
            for each in item.get("classes") or ():
                capacity = each.get("capacity")
                limit = None if capacity is None else Quantity.parse(capacity)
                yield charge_name(level, item["name"], each["name"]), limit


def forbidden_class(spec: JsonObject, pod: JsonObject, before: JsonObject | None) -> str | None:
    """Return the reason why a pod may not have a newly named class, or None."""
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
    """Return the class lists of a quota's status."""
    found: JsonObject = {}
    for level in CLASS_LISTS:
        if types := spec.get(level):
            found[level] = [{"name": item["name"], **_classes(level, item, used)} for item in types]
    return found


def shown(lists: JsonObject, field: str) -> dict[str, str]:
    """Return capacity or use of limited classes, for `hard` and `used`: `kubectl describe` prints only these."""
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
