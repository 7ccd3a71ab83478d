"""Which columns `kubectl get` shows for each of Kubernetes' own kinds."""

from __future__ import annotations

from tarmac.api.resource import Column

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {}


def columns_for(group: str, kind: str) -> tuple[Column, ...]:
    """The columns of one kind, name first; empty means name and creation time."""
    return _COLUMNS.get((group, kind), ())
