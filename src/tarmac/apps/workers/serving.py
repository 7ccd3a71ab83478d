"""Differences of a control plane that is one of several processes, apart from its listener.

Each process has its own cache of the store and its share of the request limits. Only the lowest live worker of a host
announces the server, takes part in the controllers' leader election, and scrapes nodes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.metrics import Family
from tarmac.base.tasks import background, supervise
from tarmac.http.messages import Request, Response
from tarmac.server.assembly import ServerParts
from tarmac.server.endpoints.documents import EXPOSITION
from tarmac.server.metrics import Metrics, exposition
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.subresources.metrics import Metering, Usage
from tarmac.server.workers.peers import Peers
from tarmac.server.workers.workermetrics import encode_families, merged_families

_log = log("workers")


class _UsageElsewhere:
    """Usage measured by the lowest worker. Implements `subresources.metrics.UsageSource`."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def nodes(self) -> Usage:
        """Return the usage of nodes."""
        return self._peers.usage("nodes")

    def pods(self) -> Usage:
        """Return the usage of pods."""
        return self._peers.usage("pods")


def join(peers: Peers, parts: ServerParts, metering: Metering, scraper: Scraper) -> None:
    """Make a server one of several: its metrics are summed over all, and it is ready only if all workers are."""
    peers.ready = lambda: all(check() is None for check in parts.ready.values())
    peers.figures = {
        "/metrics": lambda: encode_families(parts.metrics.families()),
        "/usage/nodes": scraper.nodes,
        "/usage/pods": scraper.pods,
    }
    parts.ready_elsewhere.update(peers.checks())
    metering.source = _UsageElsewhere(peers)

    async def figures(_request: Request) -> Response:
        return Response(200, exposition(await _of_all(peers, parts.metrics)), EXPOSITION)

    parts.documents["/metrics"] = figures


async def _of_all(peers: Peers, metrics: Metrics) -> list[Family]:
    others = await peers.gathered("/metrics")
    name = "tarmac_server_processes"
    states = [(name, [("state", state)], count) for state, count in peers.states().items()]
    own: Family = (name, "gauge", "Processes of this server, by state.", states)
    return [*merged_families({peers.index: encode_families(metrics.families()), **others}), own]


@asynccontextmanager
async def measuring(scraper: Scraper, metering: Metering, clock: Clock) -> AsyncGenerator[None]:
    """Scrape nodes and publish their usage here during the block."""
    before, metering.source = metering.source, scraper
    try:
        async with background(supervise("metering", scraper.run, clock), "metering"):
            yield
    finally:
        metering.source = before


async def while_lowest(peers: Peers, duties: Callable[[], AbstractAsyncContextManager[None]]) -> NoReturn:
    """Perform the duties while this worker is the lowest one alive, until cancelled."""
    while True:
        await peers.until_lowest(True)
        _log.info("worker performs the server's duties", worker=peers.index)
        async with duties():
            await peers.until_lowest(False)
