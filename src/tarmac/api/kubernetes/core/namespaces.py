"""Namespace: created Active with the `kubernetes` finalizer, labelled with its own name."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_NAME_LABEL = "kubernetes.io/metadata.name"
_FINALIZER = "kubernetes"
_STANDARD_FINALIZERS = (_FINALIZER, "orphan", "foregroundDeletion")


class NamespaceStrategy(KubernetesStrategy):
    """Labels a namespace with its own name, and holds it until its finalizer is removed once it is empty."""

    has_status = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"
        if name := obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})[_NAME_LABEL] = name

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        # finalizers change only through the finalize subresource
        keep(new["spec"], old.get("spec") or {}, "finalizers")
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        for finalizer in obj["spec"].get("finalizers") or ():
            validate_finalizer(finalizer, "spec.finalizers", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        pass

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        phase = (new.get("status") or {}).get("phase", "")
        deleted = bool(new["metadata"].get("deletionTimestamp"))
        wanted, state = ("Terminating", "not empty") if deleted else ("Active", "empty")
        if phase != wanted:
            errors.invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {state}")

    def is_held(self, obj: JsonObject) -> bool:
        # An active namespace always terminates first, even if its finalizers were removed early.
        return bool(obj["spec"].get("finalizers")) or "deletionTimestamp" not in obj["metadata"]

    def mark_deleted(self, obj: JsonObject) -> None:
        obj["status"]["phase"] = "Terminating"

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}


def validate_finalizer(name: str, path: str, errors: FieldErrors) -> None:
    """Check a finalizer of a namespace's spec."""
    checks.qualified_name(name, path, errors)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        errors.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")
