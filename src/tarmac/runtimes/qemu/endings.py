"""How a machine ends, told apart: what the guest did, what the kernel did, and what was done to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COMPLETED: Final = "Completed"
PANICKED: Final = "GuestPanicked"
FAILED: Final = "MachineFailed"
OUT_OF_MEMORY: Final = "OOMKilled"
KILLED: Final = "Killed"

_KILLED_CODE: Final = 137


@dataclass(frozen=True, slots=True)
class Ending:
    """As a container's: code, reason, and what there is to say."""

    code: int
    reason: str
    message: str = ""


BY_FORCE: Final = Ending(_KILLED_CODE, KILLED)
"""Its time was over."""


def of_status(status: str, serial: str, said: str) -> Ending | None:
    """The end that QEMU's status means; None while it is none. The last words are the guest's, or QEMU's own."""
    if status == "shutdown":
        return Ending(0, COMPLETED)
    if status == "guest-panicked":
        return Ending(1, PANICKED, serial)
    if status == "internal-error":
        return Ending(255, FAILED, said)
    return None


def of_death(out_of_memory: bool, said: str) -> Ending:
    """The end of a process that nobody asked to end."""
    return Ending(_KILLED_CODE, OUT_OF_MEMORY) if out_of_memory else Ending(255, FAILED, said)
