"""ReplicaSet, and ReplicationController, its predecessor in core."""

from __future__ import annotations

from typing import Any, ClassVar

from tarmac.api import checks
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import (
    validate_counts,
    validate_match,
    validate_replicated,
    validate_selector,
)
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class ReplicaSetStrategy(ControllerStrategy):
    """A number of equal pods."""

    empty_status: ClassVar[dict[str, Any]] = {"replicas": 0}

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        obj["spec"].setdefault("replicas", 1)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validate_counts(obj["spec"], ("replicas", "minReadySeconds"), errors)
        validate_selector(obj, "deployment", errors)
        validate_replicated(obj, "ReplicaSet", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector", errors)


class ReplicationControllerStrategy(ControllerStrategy):
    """The same with a plain map as selector, taken from the template's labels if it is absent."""

    empty_status: ClassVar[dict[str, Any]] = {"replicas": 0}
    orphans_dependents = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("template") is not None:
            super().default(obj)
            labels = (spec["template"].get("metadata") or {}).get("labels")
            if labels and not spec.get("selector"):
                spec["selector"] = dict(labels)
            if labels and not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        spec.setdefault("replicas", 1)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        validate_counts(spec, ("replicas", "minReadySeconds"), errors)
        selector, template = spec.get("selector"), spec.get("template")
        if not selector:
            errors.required("spec.selector")
        if template is None:
            errors.required("spec.template")
            return
        if selector:
            validate_match({"matchLabels": selector}, template, "spec.template", errors)
        validate_replicated(obj, "ReplicationController", errors)
