"""Ownership of an address: its epoch, its cause, and the last message of the former owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Cause = Literal["First", "HandedOver", "Silent", "Regained"]
"""Reason for owning an address: no owner before, released by its owner, owner silent, or owned by this node before."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Ownership of an address by this node: the epoch it won, and for operators the start time and the former owner.

    `gap` is the time since the last sign of the former owner, its renewal or its release; None if there was none.
    """

    epoch: int
    since: float
    former: str = ""
    cause: Cause = "First"
    gap: float | None = None


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last message of an owner about an address: a renewal, or its release."""

    owner: str
    epoch: int
    at: float
    released: bool
