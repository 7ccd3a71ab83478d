"""Ranges that a Network may not have: those that can be no network's, and those that hold the address of a node.

The Network's `Ready` condition carries the refusal; whoever attaches to a Network reads it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tarmac.api.conditions import find
from tarmac.api.networking.network import Network
from tarmac.api.networking.validation.ranges import reserved_by
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


def range_refusal(ranges: Iterable[str], holds_node: Callable[[str], bool]) -> Refusal | None:
    """Why one of the ranges is refused, if one is."""
    for each in filter(None, ranges):
        if reason := reserved_by(each):
            return Refusal(reasons.NETWORK_RANGE_REFUSED, f"The range {each} {reason}.")
        if holds_node(each):
            message = f"The range {each} holds the address of a node: use a Network whose range holds none."
            return Refusal(reasons.NETWORK_RANGE_REFUSED, message)
    return None


def refused_range(network: Network) -> Refusal | None:
    """Why nothing may be attached to a Network, if its status says that its range was refused."""
    said = find(network.status.conditions if network.status else (), "Ready")
    if said is None or said.reason != reasons.NETWORK_RANGE_REFUSED:
        return None
    return Refusal(said.reason, said.message, rule="network")
