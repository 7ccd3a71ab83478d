"""Lease of coordination.k8s.io."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.plain import NativeStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class LeaseStrategy(NativeStrategy):
    """Lease."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        transitions = spec.get("leaseTransitions")
        if transitions is not None:
            checks.non_negative(transitions, "spec.leaseTransitions", errors)
        if spec.get("preferredHolder") and not spec.get("strategy"):
            errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")
