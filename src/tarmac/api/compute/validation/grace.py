"""The grace period of an instance: the time between the stop request and the kill."""

from __future__ import annotations

from tarmac.api.compute.validation.context import Context
from tarmac.api.schema import JsonObject

MAX_GRACE = 600
"""Seconds. The upper bound for all operations that wait for an instance to end, such as a rollout or a node drain."""


def check_grace(runtime: JsonObject, default: int, path: str, context: Context) -> int:
    """Check and return the grace period of a sandbox or machine at `path`.

    A larger value that is already stored stays.
    """
    grace = runtime.get("terminationGracePeriodSeconds")
    if grace is None:
        return default
    if not 0 <= grace <= MAX_GRACE and grace != context.stored.grace:
        detail = f"must be between 0 and {MAX_GRACE} seconds, inclusive"
        context.errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, detail)
    return grace
