"""Ownership in a SourceIP's status: the owning gateway, its predecessor, and conflicts with foreign hosts."""

from __future__ import annotations

from tarmac.api.declare import Time
from tarmac.api.egress.forwarding import GatewayNodeStatus
from tarmac.api.egress.sourceip import AddressOwner, AddressPhase, SourceIPStatus
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding
from tarmac.decide.verdict import Refusal

_HELD = ("Bound", "Conflict")
_CAUSES = {
    "First": "first owner",
    "HandedOver": "it was handed over",
    "Silent": "its gateway was not heard of any more",
    "Regained": "its lease had lapsed",
}


def phase_with(phase: AddressPhase | None, conflict: Refusal | None) -> AddressPhase | None:
    """Return the phase of a held address: `Conflict` if a foreign host on its segment uses it, else `Bound`."""
    if phase not in _HELD:
        return phase
    return "Conflict" if conflict is not None else "Bound"


def owned(owner: AddressOwner | None, number: int, conflict: Refusal | None) -> Finding:
    """Return the condition `Owned`."""
    if not number:
        return Finding("Owned", "False", reasons.SOURCE_IP_IDS_EXHAUSTED, "No identity is free for its packets.")
    if owner is not None:
        return Finding("Owned", "True", reasons.GATEWAY_OWNS, f"{owner.gateway} carries it.")
    if conflict is not None:
        return Finding("Owned", "False", conflict.reason, conflict.message)
    return Finding("Owned", "False", reasons.OWNER_CHANGING, "No gateway carries it.")


def owner_changed(address: str, before: AddressOwner | None, owner: GatewayNodeStatus | None) -> str:
    """Return the event text of a new owner: old and new gateway, cause, and gap without an owner. Empty: unchanged."""
    if owner is None or (before is not None and (before.gateway, before.epoch) == (owner.name, owner.epoch)):
        return ""
    former = owner.former_owner or (before.gateway if before is not None else "")
    move = f"{address} has come to {owner.name}" + (f" from {former}" if former else "")
    gap = f", without an owner for {owner.gap_milliseconds} ms" if owner.gap_milliseconds is not None else ""
    return f"{move}: {_CAUSES.get(owner.cause or '', 'no cause is known')}{gap}."


def last_failover(old: SourceIPStatus, owner: GatewayNodeStatus | None) -> Time | None:
    """Return the time of the last move of an address from one gateway to another."""
    if owner is None:
        return old.last_failover
    before = old.owner.gateway if old.owner is not None else ""
    former = owner.former_owner or before
    return owner.since if former and former != owner.name else old.last_failover
