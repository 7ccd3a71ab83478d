"""Lease of coordination.k8s.io."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.strategy import NativeStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


class LeaseStrategy(NativeStrategy):
    """Lease. Drops fields of coordinated leader election, which is not supported."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare_for_create(self, obj: JsonObject) -> None:
        _drop_coordination(obj)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        _drop_coordination(new)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        transitions = spec.get("leaseTransitions")
        if transitions is not None:
            checks.non_negative(transitions, "spec.leaseTransitions", errors)


def _drop_coordination(lease: JsonObject) -> None:
    """Drop the fields of coordinated leader election, which is not supported."""
    for field in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(field, None)
