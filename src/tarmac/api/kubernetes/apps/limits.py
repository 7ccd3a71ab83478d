"""Numbers of pods that are a count or a percentage of the replicas."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors


def validate_limit(limit: int | str, path: str, errors: FieldErrors) -> None:
    """Check a count that is not negative, or a percentage."""
    if isinstance(limit, int):
        checks.non_negative(limit, path, errors)
    else:
        checks.report(names.percent(limit), limit, path, errors)


def validate_share(limit: int | str, path: str, errors: FieldErrors) -> None:
    """Check that a percentage is at most 100."""
    if not isinstance(limit, int) and not names.percent(limit) and int(limit.removesuffix("%")) > 100:
        errors.invalid(path, limit, "must not be greater than 100%")


def is_zero(limit: int | str | None) -> bool:
    """Return True for 0, 0% and an absent limit."""
    if limit is None or isinstance(limit, int):
        return not limit
    return not names.percent(limit) and int(limit.removesuffix("%")) == 0
