"""PersistentVolume: one immutable source, a capacity and a node affinity."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.changes import describe, keep
from tarmac.api.kubernetes.core import nodeselection, volumeclaims
from tarmac.api.kubernetes.resourcenames import ZERO, quantity, round_up
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_POLICIES = ("Delete", "Recycle", "Retain")
# fields of a spec other than the volume's source
_COMMON = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


class PersistentVolumeStrategy(KubernetesStrategy):
    """PersistentVolume."""

    has_status = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        spec.setdefault("volumeMode", "Filesystem")
        round_up(spec.get("capacity"))
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def prepare_for_create(self, obj: JsonObject) -> None:
        created = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"phase": "Pending"}
        if created:
            obj["status"]["lastPhaseTransitionTime"] = created

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_for_status_update(new, old)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if status.get("phase") == before.get("phase") and not status.get("lastPhaseTransitionTime"):
            keep(status, before, "lastPhaseTransitionTime")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        modes = spec.get("accessModes") or ()
        if not modes:
            errors.required("spec.accessModes")
        volumeclaims.validate_access_modes(modes, "spec.accessModes", errors)
        _validate_capacity(spec.get("capacity") or {}, errors)
        policy = spec.get("persistentVolumeReclaimPolicy", "")
        if policy and policy not in _POLICIES:
            errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, _POLICIES)
        _validate_affinity(spec, errors)
        _validate_source(spec, errors)
        if name := spec.get("storageClassName"):
            checks.dns_subdomain(name, "spec.storageClassName", errors)
        mode = spec.get("volumeMode")
        if mode is not None and mode not in volumeclaims.VOLUME_MODES:
            errors.not_supported("spec.volumeMode", mode, volumeclaims.VOLUME_MODES)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        source, before = _source(new["spec"]), _source(old["spec"])
        if source != before:
            detail = f"spec.persistentvolumesource is immutable after creation\n{describe(before, source)}"
            errors.forbidden("spec.persistentvolumesource", detail)
        checks.immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode", errors)
        affinity = old["spec"].get("nodeAffinity")
        if affinity is not None and new["spec"].get("nodeAffinity") != affinity:
            detail = f"{checks.IMMUTABLE}, except for updating from beta label to GA"
            errors.invalid("nodeAffinity", new["spec"].get("nodeAffinity"), detail)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if obj["spec"].get("persistentVolumeReclaimPolicy") != "Recycle":
            return []
        return [
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
            "approach is to use dynamic provisioning."
        ]


def _source(spec: JsonObject) -> JsonObject:
    return {key: value for key, value in spec.items() if key not in _COMMON}


def _validate_capacity(capacity: JsonObject, errors: FieldErrors) -> None:
    if not capacity:
        errors.required("spec.capacity")
    if set(capacity) != {"storage"}:
        errors.not_supported("spec.capacity", dict(sorted(capacity.items())) or None, ("storage",))
    for name, text in capacity.items():
        amount = quantity(text)
        if amount < ZERO:
            errors.invalid(f"spec.capacity[{name}]", amount.value(), "must be a valid resource quantity")
        if name == "storage" and amount <= ZERO:
            errors.invalid(f"spec.capacity[{name}]", str(amount), "must be greater than zero")


def _validate_affinity(spec: JsonObject, errors: FieldErrors) -> None:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        if "local" in spec:
            errors.required("spec.nodeAffinity", "Local volume requires node affinity")
        return
    required = affinity.get("required")
    if required is None:
        errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        nodeselection.validate_node_selector(required, "spec.nodeAffinity.required", errors)


def _validate_source(spec: JsonObject, errors: FieldErrors) -> None:
    sources = list(_source(spec))
    if not sources:
        errors.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        errors.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    for kind in ("hostPath", "local"):
        if (source := spec.get(kind)) is not None:
            if not source.get("path"):
                errors.required(f"spec.{kind}.path")
            else:
                checks.no_backsteps(source["path"], f"spec.{kind}.path", errors)
    if (source := spec.get("csi")) is not None:
        volumeclaims.validate_driver_name(source.get("driver", ""), "spec.csi.driver", errors)
        if not source.get("volumeHandle"):
            errors.required("spec.csi.volumeHandle")
