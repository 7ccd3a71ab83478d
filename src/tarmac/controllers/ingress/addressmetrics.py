"""Metrics of public addresses, from the controller's caches: addresses by state, and sessions with routers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tarmac.base.metrics import Family, counted
from tarmac.controllers.ingress.caches import IngressCaches
from tarmac.decide.ingress.announcing import has_conflict, reports
from tarmac.decide.ingress.binding import phase_of
from tarmac.decide.ingress.pools import ESTABLISHED


class IngressMetrics:
    """Metrics of the loops of one process."""

    def __init__(self, caches: IngressCaches) -> None:
        self._caches = caches

    def families(self) -> Iterator[Family]:
        """Yield the metric families; called at each scrape."""
        labels = ("pool", "family", "state")
        yield counted("tarmac_public_addresses", "PublicAddresses by state.", labels, self._states())
        described = "Public addresses that a gateway announces, and those that another host uses."
        yield counted("tarmac_public_addresses_announced", described, ("pool", "result"), self._announced())
        yield counted("tarmac_bgp_sessions", "Sessions of nodes with routers.", ("peer", "state"), self._sessions())

    def _states(self) -> Counter[tuple[str, ...]]:
        every = (item.object for item in self._caches.known_addresses.cache.items())
        return Counter(
            (each.spec.pool_name, "IPv6" if ":" in each.spec.address else "IPv4", phase_of(each) or "New")
            for each in every
        )

    def _announced(self) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for address in (item.object for item in self._caches.known_addresses.cache.items()):
            pool = address.spec.pool_name
            own_reports = reports(address, self._caches.pools.get(pool), self._caches.node_views.views)
            found[pool, "announced"] += any(each.entry.announcing for each in own_reports)
            found[pool, "conflict"] += has_conflict(own_reports)
        return found

    def _sessions(self) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for peer in (item.object for item in self._caches.peers.cache.items()):
            for entry in peer.status.nodes if peer.status is not None else ():
                found[peer.metadata.name, "up" if entry.state == ESTABLISHED else "down"] += 1
        return found
