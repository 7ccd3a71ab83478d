"""Eviction thresholds, as written in a kubelet's configuration.

A threshold is an amount (`100Mi`) or a share of the capacity (`10%`). Shares are kept in single precision, as kubelet
keeps them: 5 % of 10Gi is 536870920 there, not ...912, and both must compute the same value for a node. Kubelet rounds
to floats, here fractions are rounded to the same bits, so no amount is too large. A share of 0 % or 100 % disables a
signal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from tarmac.base.duration import parse_duration
from tarmac.base.quantity import Quantity

MEMORY_AVAILABLE: Final = "memory.available"
NODEFS_AVAILABLE: Final = "nodefs.available"
NODEFS_INODES: Final = "nodefs.inodesFree"
IMAGEFS_AVAILABLE: Final = "imagefs.available"
IMAGEFS_INODES: Final = "imagefs.inodesFree"
PID_AVAILABLE: Final = "pid.available"
SIGNALS: Final = (
    MEMORY_AVAILABLE,
    NODEFS_AVAILABLE,
    NODEFS_INODES,
    IMAGEFS_AVAILABLE,
    IMAGEFS_INODES,
    PID_AVAILABLE,
)
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
"""Not configurable: the memory that all pods together have left below their common limit."""
DEFAULT_HARD: Final[Mapping[str, str]] = {
    MEMORY_AVAILABLE: "100Mi",
    NODEFS_AVAILABLE: "10%",
    NODEFS_INODES: "5%",
    IMAGEFS_AVAILABLE: "15%",
    IMAGEFS_INODES: "5%",
}

_SINGLE, _DOUBLE = 24, 53  # significant bits of kubelet's numbers
_MAX_LENGTH = 40  # characters of a share
_PERCENT = re.compile(r"([+-]?[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,2})?)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Measure:
    """An amount, or a share of a capacity."""

    amount: int = 0
    share: Fraction | None = None

    def of(self, capacity: int) -> int:
        """Return the amount of the measure for this capacity."""
        if self.share is None:
            return self.amount
        return int(_rounded(_rounded(Fraction(capacity), _DOUBLE) * self.share, _DOUBLE))


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold: below `least` of the signal, pods are evicted; at once, or (soft) after `grace` seconds.

    Eviction continues until `reclaim` more than the least is available. `source`: the setting it comes from.
    """

    signal: str
    least: Measure
    grace: float = 0.0
    reclaim: Measure = Measure()
    source: str = field(default="", compare=False)

    @property
    def hard(self) -> bool:
        """True if the threshold takes effect at once."""
        return self.grace == 0.0


def thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace: Mapping[str, str],
    minimum_reclaim: Mapping[str, str],
) -> tuple[Threshold, ...]:
    """Combine four maps of a configuration into thresholds. Raises ValueError naming the map and the signal."""
    reclaim = {signal: _measure("evictionMinimumReclaim", signal, text) for signal, text in minimum_reclaim.items()}
    found = [
        Threshold(signal, least, 0.0, reclaim.get(signal) or Measure(), "evictionHard")
        for signal, least in _measures("evictionHard", hard)
    ]
    for signal, least in _measures("evictionSoft", soft):
        if signal not in soft_grace:
            raise ValueError(f"evictionSoftGracePeriod: there is none for {signal}; add one, such as 1m30s")
        grace = _grace(signal, soft_grace[signal])
        found.append(Threshold(signal, least, grace, reclaim.get(signal) or Measure(), "evictionSoft"))
    return tuple(found)


def _measures(field: str, texts: Mapping[str, str]) -> list[tuple[str, Measure]]:
    parsed = [(signal, _measure(field, signal, text)) for signal, text in texts.items()]
    return [(signal, measure) for signal, measure in parsed if measure.share not in (0, 1)]


def _measure(field: str, signal: str, text: str) -> Measure:
    if signal not in SIGNALS:
        raise ValueError(f"{field}: {signal!r} is no signal; there are {', '.join(SIGNALS)}")
    try:
        return _share(text) if text.endswith("%") else _amount(text)
    except ValueError as error:
        raise ValueError(f"{field}[{signal}]: {error}") from error


def _share(text: str) -> Measure:
    match = _PERCENT.fullmatch(text[: _MAX_LENGTH + 1])
    if match is None or not any(map(str.isdigit, text)):
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is not a share, for example 5%")
    percent = Fraction(match[1])
    if not 0 <= percent <= 100:
        raise ValueError(f"{text!r} is not between 0% and 100%")
    return Measure(share=_rounded(_rounded(percent, _SINGLE) / 100, _SINGLE))


def _amount(text: str) -> Measure:
    quantity = Quantity.parse(text)
    if quantity.nanos <= 0:
        raise ValueError(f"{text!r} must be positive, for example 100Mi or 5%")
    return Measure(amount=quantity.value())


def _grace(signal: str, text: str) -> float:
    try:
        grace = parse_duration(text)
    except ValueError as error:
        raise ValueError(f"evictionSoftGracePeriod[{signal}]: {error}") from error
    if grace <= 0:
        raise ValueError(f"evictionSoftGracePeriod[{signal}]: {text!r} must be positive, for example 1m30s")
    return grace


def _rounded(number: Fraction, bits: int) -> Fraction:
    """Round a positive number to its first bits, half to even, as arithmetic with floats does."""
    unit = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length() - bits)
    if number >= unit * 2**bits:
        unit *= 2
    return round(number / unit) * unit
