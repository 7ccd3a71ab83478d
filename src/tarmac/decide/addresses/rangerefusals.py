"""Rejects ranges of Networks: reserved ranges, and ranges with the address of a node.

A node reports its own addresses, so the order of arrival decides: a Network with a range keeps it when a node later
claims an address in it. The Network's `Ready` condition carries the refusal; controllers that attach to a Network read
it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tarmac.api.conditions import find
from tarmac.api.networking.network import Network
from tarmac.api.networking.validation.ranges import reserved_by
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


def range_refusal(ranges: Iterable[str], holds_node: Callable[[str], bool]) -> Refusal | None:
    """Return the refusal of the first rejected range; None if all are accepted."""
    for each in filter(None, ranges):
        if reason := reserved_by(each):
            return Refusal(reasons.NETWORK_RANGE_REFUSED, f"The range {each} {reason}.")
        if holds_node(each):
            message = (
                f"The range {each} holds the address of a node: use a Network without node addresses in its range."
            )
            return Refusal(reasons.NETWORK_RANGE_REFUSED, message)
    return None


def keeps_range(network: Network) -> bool:
    """Return True if a Network has its range already, so that a node that joins later cannot invalidate it."""
    status = network.status
    return status is not None and bool(status.ipv4_range or status.ipv6_range) and refused_range(network) is None


def refused_range(network: Network) -> Refusal | None:
    """Return the refusal in a Network's status if its range was rejected: then interfaces must not be attached."""
    ready = find(network.status.conditions if network.status else (), "Ready")
    if ready is None or ready.reason != reasons.NETWORK_RANGE_REFUSED:
        return None
    return Refusal(ready.reason, ready.message, rule="network")
