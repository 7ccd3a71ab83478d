"""The deviation of a metric from its target that causes no change."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tarmac.api.compute.scaling import ScalingBehavior, ScalingRules
from tarmac.base.quantity import NANO

_DEFAULT: Final = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Shares of the target, below and above it."""

    down: Fraction = _DEFAULT
    up: Fraction = _DEFAULT

    @staticmethod
    def of(behavior: ScalingBehavior | None) -> Tolerance:
        """Return the configured tolerance, or a tenth."""
        return Tolerance(
            _written(behavior.scale_down if behavior else None), _written(behavior.scale_up if behavior else None)
        )

    def covers(self, ratio: Fraction) -> bool:
        """Return True if the ratio is within the tolerance."""
        return 1 - self.down <= ratio <= 1 + self.up


def _written(rules: ScalingRules | None) -> Fraction:
    return Fraction(rules.tolerance.nanos, NANO) if rules and rules.tolerance is not None else _DEFAULT
