"""Results of one probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Success, success with a warning, or failure. `output` is for users."""

    result: Literal["success", "warning", "failure"]
    output: str = ""


SUCCESS = ProbeResult("success")


class ProbeFault(Exception):
    """The probe could not be executed: the container's state is unknown."""


def failure(output: str) -> ProbeResult:
    """Return a failed result."""
    return ProbeResult("failure", output)
