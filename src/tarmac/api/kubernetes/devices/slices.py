"""ResourceSlice: the devices that a driver offers on a node, or on several."""

from __future__ import annotations

import re
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.core.nodeselection import validate_node_selector
from tarmac.api.kubernetes.core.volumeclaims import validate_driver_name
from tarmac.api.kubernetes.devices.devicenames import attribute_name, name_of, pool_name, unique
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

SELECTABLE: Final = ("spec.nodeName", "spec.driver")
_MAX_DEVICES: Final = 128
_MAX_ATTRIBUTES: Final = 32
_MAX_VALUE: Final = 64
_PLACES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
# of features that are alpha in Kubernetes 1.35
_DROPPED: Final = ("sharedCounters", "perDeviceNodeSelection")
_DROPPED_OF_DEVICES: Final = (
    "allNodes", "allowMultipleAllocations", "bindingConditions", "bindingFailureConditions", "bindsToNode",
    "consumesCounters", "nodeName", "nodeSelector", "taints",
)  # fmt: skip
_NUMBER, _IDENTIFIER = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)


class ResourceSliceStrategy(KubernetesStrategy):
    """ResourceSlice."""

    generation = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        for field in _DROPPED:
            spec.pop(field, None)
        for device in checks.objects(spec, "devices"):
            for field in _DROPPED_OF_DEVICES:
                device.pop(field, None)
            for capacity in checks.mapping(device, "capacity").values():
                capacity.pop("requestPolicy", None)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        self.prepare_for_create(new)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        validate_driver_name(spec.get("driver", ""), "spec.driver", errors)
        _validate_pool(checks.mapping(spec, "pool"), errors)
        _validate_place(spec, errors)
        unique(spec.get("devices") or (), _MAX_DEVICES, _validate_device, name_of, "spec.devices", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        now, before = new["spec"], old["spec"]
        pool, former = (checks.mapping(each, "pool").get("name") for each in (now, before))
        checks.immutable(pool, former, "spec.pool.name", errors)
        for field in ("driver", "nodeName"):
            checks.immutable(now.get(field), before.get(field), f"spec.{field}", errors)
        self.validate(new, errors)

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        spec = checks.mapping(obj, "spec")
        return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")}


def _validate_pool(pool: JsonObject, errors: FieldErrors) -> None:
    pool_name(name_of(pool), "spec.pool.name", errors)
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        errors.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _validate_place(spec: JsonObject, errors: FieldErrors) -> None:
    chosen: list[str] = []
    node, nodes, every = spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
    if node is not None:
        if node:
            chosen.append("`nodeName`")
            checks.dns_subdomain(node, "spec.nodeName", errors)
        else:
            errors.invalid("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if nodes is not None:
        chosen.append("`nodeSelector`")
        validate_node_selector(nodes, "spec.nodeSelector", errors)
        terms = nodes.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            errors.invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    if every:
        chosen.append("`allNodes`")
    elif every is not None:
        errors.invalid("spec.allNodes", every, _UNSET_OR_TRUE)
    if not chosen:
        errors.required("spec", _PLACES)
    elif len(chosen) > 1:
        errors.invalid("spec", f"{{{', '.join(chosen)}}}", f"{_PLACES}, but multiple fields are set")


def _validate_device(device: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.dns_label(name_of(device), f"{path}.name", errors)
    attributes, capacity = checks.mapping(device, "attributes"), checks.mapping(device, "capacity")
    count = len(attributes) + len(capacity)
    if count > _MAX_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        errors.invalid(path, count, text)
    for name, value in attributes.items():
        attribute_name(name, f"{path}.attributes[{name}]", errors)
        _validate_value(value, f"{path}.attributes[{name}]", errors)
    for name in capacity:
        attribute_name(name, f"{path}.capacity[{name}]", errors)


def _validate_value(value: JsonObject, path: str, errors: FieldErrors) -> None:
    given = [field for field in ("int", "bool", "string", "version") if value.get(field) is not None]
    for field in ("string", "version"):
        text = value.get(field) or ""
        if field in given and field == "version" and not _VERSION.fullmatch(text):
            errors.invalid(f"{path}.version", text, "must be a string compatible with semver.org spec 2.0.0")
        if len(text) > _MAX_VALUE:
            errors.too_long(f"{path}.{field}", text, _MAX_VALUE)
    if len(given) != 1:
        errors.invalid(path, value if given else "", "exactly one value must be specified")
