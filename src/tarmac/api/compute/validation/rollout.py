"""The replacement of instances after a template change."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_WAVES = ("Doubling", "AllAtOnce")
_ON_FAILURE = ("Restore", "Hold")
_MAX_SECONDS = 2**31 - 1


def check_rollout(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `rollout` of a Workload or a deployment."""
    rollout = spec.get("rollout")
    if rollout is None:
        return
    where = f"{path}.rollout"
    unavailable, surge = rollout.get("maxUnavailable", 1), rollout.get("maxSurge", 0)
    _amount(unavailable, f"{where}.maxUnavailable", errors)
    _amount(surge, f"{where}.maxSurge", errors)
    if _is_zero(unavailable) and _is_zero(surge):
        errors.invalid(f"{where}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(unavailable, str) and not names.percent(unavailable) and int(unavailable[:-1]) > 100:
        errors.invalid(f"{where}.maxUnavailable", unavailable, "must not be greater than 100%")
    _waves(rollout, where, errors)


def _waves(rollout: JsonObject, where: str, errors: FieldErrors) -> None:
    checks.one_of(rollout.get("waves", _WAVES[0]), _WAVES, f"{where}.waves", errors)
    checks.one_of(rollout.get("onFailure", _ON_FAILURE[0]), _ON_FAILURE, f"{where}.onFailure", errors)
    ready, deadline = rollout.get("minReadySeconds", 0), rollout.get("progressDeadlineSeconds", 600)
    checks.non_negative(ready, f"{where}.minReadySeconds", errors)
    if not ready < deadline <= _MAX_SECONDS:
        detail = f"must be greater than minReadySeconds and at most {_MAX_SECONDS}"
        errors.invalid(f"{where}.progressDeadlineSeconds", deadline, detail)


def _amount(value: int | str, path: str, errors: FieldErrors) -> None:
    if isinstance(value, str):
        checks.report(names.percent(value), value, path, errors)
    else:
        checks.non_negative(value, path, errors)


def _is_zero(value: int | str) -> bool:
    return value in {0, "0%"}
