"""Exit codes and reasons of machines: shutdown by the guest, panic, OOM kill, forced stop, or failure of QEMU."""

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
class MachineExit:
    """Exit code, reason and message, as of a container."""

    code: int
    reason: str
    message: str = ""


BY_FORCE: Final = MachineExit(_KILLED_CODE, KILLED)
"""The grace period was over, or the machine was killed."""


def of_status(status: str, serial: str, output: str) -> MachineExit | None:
    """Return the ending for a QMP status, None if not final. `serial`, `output`: last output of guest and QEMU."""
    if status == "shutdown":
        return MachineExit(0, COMPLETED)
    if status == "guest-panicked":
        return MachineExit(1, PANICKED, serial)
    if status == "internal-error":
        return MachineExit(255, FAILED, output)
    return None


def silent(seconds: float) -> MachineExit:
    """Return the ending of a process that was killed because its monitor never answered."""
    return MachineExit(
        _KILLED_CODE, FAILED, f"QEMU's monitor has not answered for {seconds:g} s; the machine was killed"
    )


def of_death(out_of_memory: bool, output: str) -> MachineExit:
    """Return the ending of a process that exited without a recorded reason."""
    return MachineExit(_KILLED_CODE, OUT_OF_MEMORY) if out_of_memory else MachineExit(255, FAILED, output)
