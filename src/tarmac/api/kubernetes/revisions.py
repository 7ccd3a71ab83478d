"""ControllerRevision of apps: an immutable copy of a rolled-out state."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.strategy import NativeStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class ControllerRevisionStrategy(NativeStrategy):
    """ControllerRevision."""

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        checks.non_negative(obj.get("revision", 0), "revision", errors)
        data = obj.get("data")
        if data is None:
            errors.required("data", "data is mandatory")
        elif not isinstance(data, dict):
            errors.required("data", "data must be a valid JSON object")

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.non_negative(new.get("revision", 0), "revision", errors)
        checks.immutable(new.get("data"), old.get("data"), "data", errors)
