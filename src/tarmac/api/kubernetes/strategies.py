"""Which rules each of Kubernetes' own kinds follows."""

from __future__ import annotations

from tarmac.api.resource import Strategy

_STRATEGIES: dict[tuple[str, str], Strategy] = {}


def strategy_for(group: str, kind: str) -> Strategy:
    """The strategy of one kind; kinds without rules of their own get the plain one."""
    return _STRATEGIES.get((group, kind)) or Strategy()
