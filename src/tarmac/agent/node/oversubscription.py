"""The event that reports the CPU oversubscription of a node."""

from __future__ import annotations

from tarmac.client.eventrecorder import EventType
from tarmac.decide.allocatable.accounts import NodeLedger
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.allocatable.reservations import KUBE, SYSTEM
from tarmac.decide.amounts import CPU, shown

REASON = "CPUOverSubscription"


def oversubscription_event(ledger: NodeLedger) -> tuple[EventType, str, str] | None:
    """Return type, reason and message; None without oversubscription. More than the reserved CPU is a warning."""
    cpu = ledger[CPU]
    if not cpu.oversubscription:
        return None
    reserved = cpu.held(SYSTEM, KUBE)
    message = (
        f"capacity {shown(CPU, cpu.capacity)}, reserved {shown(CPU, reserved)}, "
        f"oversubscription {three_decimals(cpu.oversubscription)}, allocatable {shown(CPU, cpu.allocatable)}"
    )
    return ("Warning" if cpu.oversubscription > reserved else "Normal"), REASON, message
