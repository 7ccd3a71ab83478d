"""Traffic metrics of the addresses that this node owns.

The kernel is queried on scrape, at most once per `FRESH` seconds: reading the connections takes a few microseconds
each. A node that may own no address queries nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from tarmac.agent.stats.summary import Sample
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.egress import EgressDatapath, GatewayTraffic, ServiceTraffic

FRESH: Final = 5.0

_log = log("external")


class TrafficMetrics:
    """Collects the metrics. `is_candidate` tells if the node may own addresses."""

    def __init__(self, datapath: EgressDatapath, is_candidate: Callable[[], bool], clock: Clock) -> None:
        self._datapath, self._is_candidate, self._clock = datapath, is_candidate, clock
        self._known, self._until = GatewayTraffic(), 0.0
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Query the kernel unless the last result is still fresh."""
        # One query at a time: a parallel scrape waits, and then finds a fresh result.
        async with self._reading:
            if not self._is_candidate():
                self._known, self._until = GatewayTraffic(), 0.0
            elif self._clock.monotonic() >= self._until:
                try:
                    self._known = await self._datapath.carriage()
                except OSError as error:  # repeat the last values: better than a gap in a counter
                    _log.warning("connections of external services cannot be counted", why=str(error))
                # From the end of the query: one that takes longer than the interval is still followed by a pause.
                self._until = self._clock.monotonic() + FRESH

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the last query."""
        for each in self._known.traffic:
            labels = _labels(each)
            yield "tarmac_external_connections", "gauge", labels, each.live
            yield "tarmac_external_connections_total", "counter", labels, each.connections
            yield "tarmac_external_bytes_total", "counter", labels, each.bytes
        for address, ratio in sorted(self._known.port_use.items()):
            yield "tarmac_gateway_source_port_use_ratio", "gauge", {"sourceip": address}, ratio


def _labels(of: ServiceTraffic) -> dict[str, str]:
    namespace, _, name = of.service.partition("/")
    direction = "in" if of.inward else "out"
    return {"namespace": namespace, "externalservice": name, "sourceip": of.source, "direction": direction}
