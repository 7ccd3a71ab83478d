"""CSIDriver, CSINode and CSIStorageCapacity: what volume drivers say about themselves, their nodes and their room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.core.volumeclaims import validate_driver_name
from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_DEFAULTS: Final[JsonObject] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_MODES: Final = ("Persistent", "Ephemeral")
_MIN_PERIOD: Final = 10  # seconds
_MIN_TOKEN: Final = 600  # seconds
_MAX_TOKEN: Final = 1 << 32  # seconds
_MAX_NODE_ID: Final = 256
_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


class CSIDriverStrategy(KubernetesStrategy):
    """CSIDriver."""

    allow_unconditional_update = False
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for field, value in _DEFAULTS.items():
            spec.setdefault(field, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        if spec["fsGroupPolicy"] not in _GROUP_POLICIES:
            errors.not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], _GROUP_POLICIES)
        _validate_tokens(spec.get("tokenRequests") or (), errors)
        for mode in spec["volumeLifecycleModes"]:
            if mode not in _MODES:
                errors.not_supported("spec.volumeLifecycleModes", mode, _MODES)
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < _MIN_PERIOD:
            detail = f"must be greater than or equal to {_MIN_PERIOD} seconds"
            errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail)
        if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], detail)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        now, before = new["spec"], old["spec"]
        checks.immutable(now["attachRequired"], before["attachRequired"], "spec.attachedRequired", errors)
        modes = (now["volumeLifecycleModes"], before["volumeLifecycleModes"])
        checks.immutable(*modes, "spec.volumeLifecycleModes", errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        spec, before = obj["spec"], checks.mapping(old, "spec")
        tokens = spec.get("tokenRequests")
        changed = tokens and tokens != before.get("tokenRequests")
        return [_TOKENS_IN_SECRETS] if changed and "serviceAccountTokenInSecrets" not in spec else []


def _validate_tokens(requests: Sequence[JsonObject], errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, request in enumerate(requests):
        path, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        if audience in seen:
            errors.duplicate(f"{path}.audience", audience)
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_TOKEN:
            errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _MAX_TOKEN:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.invalid(f"{path}.expirationSeconds", seconds, detail)


class CSINodeStrategy(KubernetesStrategy):
    """CSINode."""

    allow_unconditional_update = False
    returns_deleted = True

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        seen: set[str] = set()
        for index, driver in enumerate(checks.objects(obj, "spec", "drivers")):
            path, name = f"spec.drivers[{index}]", driver.get("name", "")
            validate_driver_name(name, f"{path}.name", errors)
            _validate_node_id(driver.get("nodeID", ""), f"{path}.nodeID", errors)
            count = checks.mapping(driver, "allocatable").get("count")
            if count is not None:
                checks.non_negative(count, f"{path}.allocatable.count", errors)
            if name in seen:
                errors.duplicate(f"{path}.name", name)
            seen.add(name)
            _validate_keys(driver.get("topologyKeys") or (), path, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        before = {driver.get("name", ""): driver for driver in checks.objects(old, "spec", "drivers")}
        for driver in checks.objects(new, "spec", "drivers"):
            known = before.get(driver.get("name", ""))
            if known is not None:  # the number of volumes that fit may change
                fixed = (_without_room(driver), _without_room(known))
                checks.immutable(*fixed, "spec.drivers", errors)


def _without_room(driver: JsonObject) -> JsonObject:
    return {key: value for key, value in driver.items() if key != "allocatable"}


def _validate_node_id(node_id: str, path: str, errors: FieldErrors) -> None:
    if not node_id:
        errors.required(path)
    if len(node_id) > _MAX_NODE_ID:
        errors.invalid(path, node_id, f"must be {_MAX_NODE_ID} characters or less")


def _validate_keys(keys: Sequence[str], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.required(path)
        if key in seen:
            errors.duplicate(path, key)
        seen.add(key)
        checks.qualified_name(key, path, errors)


class CSIStorageCapacityStrategy(KubernetesStrategy):
    """CSIStorageCapacity."""

    allow_unconditional_update = False

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        checks.label_selector(obj.get("nodeTopology"), "nodeTopology", errors)
        name = obj.get("storageClassName", "")
        checks.dns_subdomain(name, "storageClassName", errors)
        capacity = obj.get("capacity")
        if capacity is not None and quantity(capacity) < ZERO:
            errors.invalid("capacity", capacity, checks.NOT_NEGATIVE)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        for field in ("nodeTopology", "storageClassName"):
            checks.immutable(new.get(field), old.get(field), field, errors)
