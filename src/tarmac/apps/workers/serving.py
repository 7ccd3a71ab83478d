"""Differences of a control plane that is one of several processes, apart from its listener.

Each process has its own cache of the store and its share of the request limits. Only the lowest live worker of a host
announces the server, takes part in the controllers' leader election, and scrapes nodes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.metrics import Family
from tarmac.base.signals import Signal
from tarmac.base.tasks import background, supervise
from tarmac.http.messages import Request, Response
from tarmac.server.endpoints.documents import EXPOSITION
from tarmac.server.endpoints.health import Check
from tarmac.server.metrics import Metrics, exposition
from tarmac.server.nodes.scraping import Scraper
from tarmac.server.nodes.tunnels import NodeTunnels
from tarmac.server.subresources.usagemetrics import Metering, Usage
from tarmac.server.workers.peers import WorkerPeers
from tarmac.server.workers.workermetrics import encode_families, merged_families
from tarmac.server.workers.workerservice import WorkerService

_log = log("workers")


class UsageOfLowest:
    """Usage measured by the lowest worker. Implements `subresources.metrics.UsageSource`."""

    def __init__(self, peers: WorkerPeers) -> None:
        self._peers = peers

    def nodes(self) -> Usage:
        """Return the usage of nodes."""
        return self._peers.usage("nodes")

    def pods(self) -> Usage:
        """Return the usage of pods."""
        return self._peers.usage("pods")


class OneOfSeveral:
    """A server's share in a server of several processes: its metrics are summed, its readiness depends on all."""

    def __init__(
        self,
        peers: WorkerPeers,
        tunnels: NodeTunnels,
        tunnels_changed: Signal[[str, bool]],
        scraper: Scraper,
        metrics: Metrics,
        ready: Mapping[str, Check],
        clock: Clock,
    ) -> None:
        self.peers = peers
        self._metrics = metrics
        figures: Mapping[str, Callable[[], object]] = {
            "/metrics": lambda: encode_families(metrics.families()),
            "/usage/nodes": scraper.nodes,
            "/usage/pods": scraper.pods,
        }
        self._service = WorkerService(
            peers, tunnels, tunnels_changed, lambda: all(check() is None for check in ready.values()), figures, clock
        )
        self.run = self._service.run

    async def figures(self, _request: Request) -> Response:
        """Serve the metrics of all workers together."""
        return Response(200, exposition(await self._of_all()), EXPOSITION)

    async def _of_all(self) -> list[Family]:
        others = await self.peers.gathered("/metrics")
        name = "tarmac_server_processes"
        states = [(name, [("state", state)], count) for state, count in self._service.states().items()]
        own: Family = (name, "gauge", "Processes of this server, by state.", states)
        return [*merged_families({self.peers.index: encode_families(self._metrics.families()), **others}), own]


@asynccontextmanager
async def measuring(scraper: Scraper, metering: Metering, clock: Clock) -> AsyncGenerator[None]:
    """Scrape nodes and publish their usage here during the block."""
    with metering.measured_by(scraper):
        async with background(supervise("metering", scraper.run, clock), "metering"):
            yield


async def while_lowest(peers: WorkerPeers, duties: Callable[[], AbstractAsyncContextManager[None]]) -> NoReturn:
    """Perform the duties while this worker is the lowest one alive, until cancelled."""
    while True:
        await peers.until_lowest(True)
        _log.info("worker performs the server's duties", worker=peers.index)
        async with duties():
            await peers.until_lowest(False)
