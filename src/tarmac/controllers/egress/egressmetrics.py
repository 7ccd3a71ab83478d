"""Metrics of addresses, claims and ExternalServices, computed from the caches at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tarmac.api.conditions import holds
from tarmac.base.metrics import Family, Histogram
from tarmac.controllers.egress.caches import EgressCaches
from tarmac.decide.egress.claims import phase_of

_BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)


class EgressMetrics:
    """Metrics of the loops of one process. The claim loop observes the histogram of binding times."""

    def __init__(self, caches: EgressCaches) -> None:
        self._caches = caches
        self.bound = Histogram(_BOUNDS)

    def families(self) -> Iterator[Family]:
        """Yield the metric families; called at each scrape."""
        yield _counted(
            "tarmac_sourceip_addresses", "Addresses by state.", ("class", "family", "state"), self._addresses()
        )
        yield _counted("tarmac_sourceip_claims", "Claims by phase.", ("class", "phase", "reason"), self._claims())
        name = "tarmac_sourceip_bind_seconds"
        yield name, "histogram", "Seconds from a claim's creation until it was bound.", self.bound.samples(name, [])
        yield _counted("tarmac_externalservices", "ExternalServices.", ("ready",), self._services())

    def _addresses(self) -> Counter[tuple[str, ...]]:
        every = (item.object for item in self._caches.known_source_ips.cache.items())
        return Counter(
            (each.spec.class_name, "IPv6" if ":" in each.spec.address else "IPv4", phase_of(each)) for each in every
        )

    def _claims(self) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for claim in (item.object for item in self._caches.claims.cache.items()):
            status = claim.status
            said = [each.reason for each in (status.conditions if status is not None else ()) if each.type == "Bound"]
            phase = (status.phase if status is not None else None) or "Pending"
            found[claim.spec.class_name, phase, said[0] if said else ""] += 1
        return found

    def _services(self) -> Counter[tuple[str, ...]]:
        every = (item.object.status for item in self._caches.services.cache.items())
        ready = (each is not None and holds(each.conditions, "Ready") for each in every)
        return Counter(("true" if each else "false",) for each in ready)


def _counted(name: str, description: str, labels: tuple[str, ...], values: Counter[tuple[str, ...]]) -> Family:
    samples = [(name, list(zip(labels, key, strict=True)), float(value)) for key, value in sorted(values.items())]
    return name, "gauge", description, samples
