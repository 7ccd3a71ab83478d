"""How many instances a city should have, and how far a rollout may stray from that meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.validation.scaling import MAX_REPLICAS
from tarmac.api.compute.workload import Rollout
from tarmac.api.declare import IntOrString


def desired_replicas(settings: ScaleSettings, replicas: int | None) -> int:
    """What scaling asks for, or the least when nobody has scaled, kept within the bounds of the settings."""
    low, high = settings.min_replicas, settings.max_replicas or MAX_REPLICAS
    return max(low, min(low if replicas is None else replicas, high))


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Instances that may be missing, and extra ones, while a rollout goes on. Never both zero."""

    max_unavailable: int = 1
    max_surge: int = 0


DEFAULT_LIMITS: Final = RolloutLimits()


def limits(rollout: Rollout | None, desired: int) -> RolloutLimits:
    """The limits in instances. Percentages of the missing round down and of the extra round up, as in Kubernetes."""
    rollout = rollout or Rollout()
    surge = _resolve(rollout.max_surge, desired, up=True)
    unavailable = min(_resolve(rollout.max_unavailable, desired, up=False), desired)
    return RolloutLimits(unavailable if unavailable or surge else 1, surge)


def _resolve(amount: IntOrString, total: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%")) * total
    return -(-percent // 100) if up else percent // 100
