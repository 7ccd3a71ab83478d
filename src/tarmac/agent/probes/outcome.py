"""What one try of a probe can come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Success, a success to be told about, or a failure. `output` is for people."""

    result: Literal["success", "warning", "failure"]
    output: str = ""


SUCCESS = ProbeResult("success")


class ProbeFault(Exception):
    """The probe itself could not be made: nothing is known about the container."""


def failure(output: str) -> ProbeResult:
    """The container is not as it should be."""
    return ProbeResult("failure", output)
