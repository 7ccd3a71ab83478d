"""The number of instances a city should have, and the limits of a rollout around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.validation.scaling import MAX_REPLICAS
from tarmac.api.compute.workload import Rollout
from tarmac.api.declare import IntOrString


def desired_replicas(settings: ScaleSettings, replicas: int | None) -> int:
    """Return the scaled number of replicas, or the minimum without one, clamped to the bounds of the settings."""
    low, high = settings.min_replicas, settings.max_replicas or MAX_REPLICAS
    return max(low, min(low if replicas is None else replicas, high))


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Numbers of instances that may be missing or extra during a rollout. Never both zero."""

    max_unavailable: int = 1
    max_surge: int = 0


DEFAULT_LIMITS: Final = RolloutLimits()


def limits(rollout: Rollout | None, desired: int) -> RolloutLimits:
    """Resolve the limits to instances.

    As in Kubernetes, a percentage rounds down for maxUnavailable and up for maxSurge.
    """
    rollout = rollout or Rollout()
    surge = _resolve(rollout.max_surge, desired, up=True)
    unavailable = min(_resolve(rollout.max_unavailable, desired, up=False), desired)
    return RolloutLimits(unavailable if unavailable or surge else 1, surge)


def _resolve(amount: IntOrString, total: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%")) * total
    return -(-percent // 100) if up else percent // 100
