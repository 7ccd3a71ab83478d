"""The strategy of Pods, called by the server."""

from __future__ import annotations

from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.pods import statusvalidation, update, validation
from tarmac.api.kubernetes.core.pods.classfields import normalise_classes
from tarmac.api.kubernetes.core.pods.defaults import default_pod
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.placement import merge_label_keys
from tarmac.api.kubernetes.core.pods.podclasses import names_classes
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.kubernetes.core.pods.warnings import pod_warnings
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

SELECTABLE = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    """A Pod is almost immutable: images, deadlines, tolerations, and changes through subresources."""

    has_status = True
    returns_deleted = True

    def normalise(self, obj: JsonObject) -> None:
        normalise_classes(obj)

    def default(self, obj: JsonObject) -> None:
        normalise_classes(obj)
        default_pod(obj)

    def lacks_extension_fields(self, new: JsonObject) -> bool:
        # Clients that know the fields change classes through `pods/resize`, and remove the last one with a patch there.
        return not names_classes(new["spec"])

    def prepare_for_create(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        created: JsonObject = {"phase": "Pending", "qosClass": qos_class(spec)}
        obj["status"] = created
        if spec.get("schedulingGates"):
            created["conditions"] = [{**_GATED, "lastTransitionTime": obj["metadata"].get("creationTimestamp")}]
        merge_label_keys(obj)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validation.validate_create(obj, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        update.validate_update(new, old, errors)

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike in most kinds, a status write may also change labels, annotations and finalizers
        new["spec"] = old["spec"]
        metadata = new["metadata"]
        metadata.pop("deletionTimestamp", None)
        for field in ("deletionTimestamp", "ownerReferences"):
            keep(metadata, old["metadata"], field)
        current, before = new.setdefault("status", {}), old.get("status") or {}
        for field in ("qosClass", "observedGeneration"):
            if not current.get(field) and before.get(field):
                current[field] = before[field]

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        statusvalidation.validate_status(new, old, errors)

    def grace_period(self, obj: JsonObject, requested: int | None) -> int | None:
        spec = obj["spec"]
        if not spec.get("nodeName") or is_terminal(obj) or is_mirror(obj["metadata"].get("annotations")):
            return 0
        seconds = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 0)
        return 1 if seconds < 0 else seconds

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return pod_warnings(obj) if old is None else []

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        phase: str = (obj.get("status") or {}).get("phase", "")
        message = _ENDED.get(phase)
        if message is None:
            return []
        return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        spec, state = obj.get("spec") or {}, obj.get("status") or {}
        address = state.get("podIP", "")
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": state.get("phase", ""),
            "status.podIP": address,
            "status.podIPs": address,
            "status.nominatedNodeName": state.get("nominatedNodeName", ""),
        }
