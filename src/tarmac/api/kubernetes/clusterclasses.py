"""Small cluster-scoped kinds: RuntimeClass, StorageClass, PriorityClass."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.core.nodeselection import validate_tolerations
from tarmac.api.kubernetes.core.pods.requirements import validate_overhead
from tarmac.api.kubernetes.core.pods.warnings import DEPRECATED_NODE_LABELS
from tarmac.api.kubernetes.resourcenames import round_up
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_TOLERATION = (("Key", ""), ("Operator", ""), ("Value", ""), ("Effect", ""), ("TolerationSeconds", None))
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 << 10


class RuntimeClassStrategy(KubernetesStrategy):
    """RuntimeClass."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def default(self, obj: JsonObject) -> None:
        round_up(checks.mapping(obj, "overhead").get("podFixed"))

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        handler = obj.get("handler", "")
        checks.dns_label(handler, "handler", errors)
        if overhead := checks.mapping(obj, "overhead").get("podFixed"):
            validate_overhead(overhead, "overhead", errors)
        scheduling = obj.get("scheduling") or {}
        if selector := scheduling.get("nodeSelector"):
            checks.labels(selector, "scheduling.nodeSelector", errors)
        tolerations = scheduling.get("tolerations") or []
        validate_tolerations(tolerations, "scheduling.tolerations", errors)
        seen: set[tuple[str, ...]] = set()
        for index, toleration in enumerate(tolerations):
            key = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
            if key in seen:
                errors.duplicate(f"scheduling.tolerations[{index}]", checks.go_struct(toleration, *_TOLERATION))
            seen.add(key)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.immutable(new.get("handler"), old.get("handler"), "handler", errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        keys = checks.mapping(obj, "scheduling", "nodeSelector")
        found = (DEPRECATED_NODE_LABELS[key] for key in keys if key in DEPRECATED_NODE_LABELS)
        return [f"scheduling.nodeSelector: {message}" for message in found]


class StorageClassStrategy(KubernetesStrategy):
    """StorageClass."""

    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        provisioner = obj.get("provisioner", "")
        if not provisioner:
            errors.required("provisioner")
        else:
            checks.qualified_name(provisioner.lower(), "provisioner", errors)
        validate_parameters(obj.get("parameters") or {}, errors)
        policy, mode = obj["reclaimPolicy"], obj["volumeBindingMode"]
        if policy and policy not in ("Delete", "Retain"):
            errors.not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
        if mode not in _BINDING_MODES:
            errors.not_supported("volumeBindingMode", mode, _BINDING_MODES)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        for field in ("parameters", "provisioner", "reclaimPolicy"):
            if (new.get(field) or None) != (old.get(field) or None):
                errors.forbidden(field, f"updates to {field} are forbidden.")
        checks.immutable(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode", errors)


def validate_parameters(parameters: dict[str, str], errors: FieldErrors) -> None:
    """Check the parameters of a class of volumes: their number and size."""
    if len(parameters) > _MAX_PARAMETERS:
        errors.too_long("parameters", "", _MAX_PARAMETERS)
        return
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        errors.too_long("parameters", "", _MAX_PARAMETER_BYTES)


class PriorityClassStrategy(KubernetesStrategy):
    """PriorityClass."""

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["metadata"]["generation"] = 1

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            _validate_system_class(name, value, bool(obj.get("globalDefault")), errors)
        elif value > _HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            errors.forbidden("value", detail)
        policies = ("PreemptLowerPriority", "Never")
        checks.one_of(obj["preemptionPolicy"], policies, "preemptionPolicy", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        if new.get("value", 0) != old.get("value", 0):
            errors.forbidden("value", "may not be changed in an update.")
        checks.immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy", errors)


def _validate_system_class(name: str, value: int, default: bool, errors: FieldErrors) -> None:
    problem = None
    if name not in SYSTEM_PRIORITIES:
        problem = f"{name} is not a known system priority class"
    elif SYSTEM_PRIORITIES[name] != value:
        problem = f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    elif default:
        problem = f"globalDefault of {name} PriorityClass must be false"
    if problem:
        prefix = "priority class names with 'system-' prefix are reserved for system use only. error: "
        errors.forbidden("metadata.name", prefix + problem)
