"""Samples of GPUs, as the sampling program prints them: one JSON document, accepted as a whole or not at all.

NVIDIA's library runs in that program and may have damaged its memory, so every value is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

_MAX_BYTES_OF_GPU: Final = 1 << 60
_MAX_WATTS: Final = 1e5
_MAX_CELSIUS: Final = 1e3
_MAX_MESSAGE: Final = 300


class NvmlUnavailable(Exception):
    """NVML gives no sample; the message says why, without values that change from one time to the next."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Current values of one GPU from NVML; None where NVML has no value."""

    alive: bool  # it answered
    mig: bool
    utilization: float | None = None  # 0 to 1
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None  # watts
    temperature: int | None = None  # degrees Celsius
    needs_repair: bool | None = None  # the driver asks for a reset or a restart

    def outdated(self) -> GpuSample:
        """Return it without figures. A problem stays; that the driver needs no repair is no longer known."""
        return replace(GpuSample(self.alive, self.mig), needs_repair=self.needs_repair or None)


def parsed(text: bytes, uuids: Iterable[str]) -> dict[str, GpuSample]:
    """Return the sample of each of these GPUs. Raises NvmlUnavailable."""
    try:
        told: Any = json.loads(text)
        if error := told.get("error"):
            raise NvmlUnavailable(str(error)[:_MAX_MESSAGE])
        return {uuid: _sample(told["gpus"][uuid]) for uuid in uuids}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise NvmlUnavailable("the sampling program printed something else than samples") from error


def _sample(told: Any) -> GpuSample:
    """Raises TypeError, ValueError, KeyError."""
    used, total = _number(told["memory_used"], _MAX_BYTES_OF_GPU), _number(told["memory_total"], _MAX_BYTES_OF_GPU)
    heat = _number(told["temperature"], _MAX_CELSIUS)
    return GpuSample(
        alive=_truth(told["alive"]),
        mig=_truth(told["mig"]),
        utilization=_number(told["utilization"], 1),
        memory_used=None if used is None else int(used),
        memory_total=None if total is None else int(total),
        power=_number(told["power"], _MAX_WATTS),
        temperature=None if heat is None else int(heat),
        needs_repair=None if told["needs_repair"] is None else _truth(told["needs_repair"]),
    )


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("not true or false")
    return value


def _number(value: Any, most: float) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= most:  # NaN is not either
        raise ValueError("not a number in its range")
    return value
