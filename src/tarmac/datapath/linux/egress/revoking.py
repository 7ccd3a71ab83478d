"""Finds tracked connections of external services that are no longer allowed. Pure.

Rules that apply only to new connections are evaluated again when one is withdrawn. An endpoint that is merely not ready
any more keeps its connections, except for UDP, which has no end of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tarmac.datapath.egress import Arrival, Departure, SourceAddress
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.tables.forwarding import INWARD

Question = Callable[[TrackedConnection], bool]


def at_pods(departures: Iterable[Departure], arrivals: Iterable[Arrival], numbers: Mapping[str, int]) -> Question:
    """Return the predicate for connections in a router namespace that are no longer allowed."""
    out = {
        (each.pod, each.dialled, each.protocol, each.port, numbers[each.transit], each.target, each.target_port)
        for each in departures
    }
    endpoints: dict[tuple[str, str, str, int | None], set[tuple[str, int | None]]] = {}
    for each in arrivals:
        key = each.target, each.transit, each.protocol, each.port
        endpoints.setdefault(key, set()).add(each.endpoint)

    def revoked(found: TrackedConnection) -> bool:
        if not 0 < found.mark <= (INWARD | 0xFFFF):
            return False  # not of external services
        if found.mark & INWARD:
            open_to = endpoints.get((found.source, found.meant, found.protocol, found.meant_port))
            gone = open_to is not None and (found.answerer, found.port) not in open_to
            return open_to is None or (found.protocol == "UDP" and gone)
        own = found.source, found.meant, found.protocol, found.meant_port, found.mark, found.answerer, found.port
        return own not in out

    return revoked


def at_gateway(sources: Iterable[SourceAddress]) -> Question:
    """Return the predicate for connections in an egress namespace that are no longer allowed."""
    out = {(e.transit, e.target, e.protocol, e.port, each.mark) for each in sources for e in each.exits}
    within = {(e.target, each.address, e.protocol, e.port, each.mark) for each in sources for e in each.entrances}
    back = {(e.transit, e.target, e.protocol, e.port, each.mark) for each in sources for e in each.entrances}

    def revoked(found: TrackedConnection) -> bool:
        key = found.source, found.meant, found.protocol, found.meant_port, found.mark
        answers = found.source, found.meant, found.protocol, found.source_port, found.mark
        return bool(found.mark) and key not in out and key not in within and answers not in back

    return revoked
