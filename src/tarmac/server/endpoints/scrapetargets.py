"""Scrape targets for Prometheus, in the format of its HTTP service discovery.

    GET /tarmac/v1/targets/servers    every address that a server announces by its Lease
    GET /tarmac/v1/targets/nodes      every node, through the server that was asked

A server that announces no address, since it listens on loopback only, returns the address of the request.
"""

from __future__ import annotations

import msgspec

from tarmac.api.identities import NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.http.messages import Request, Response
from tarmac.server.nodesummaries import NodeSummaries
from tarmac.server.reader import Reader
from tarmac.store.interface import Store

PREFIX = "/tarmac/v1/targets/"
_LEASES = "coordination.k8s.io/leases"


class ScrapeTargets:
    """Serves the targets by the last segment of the path."""

    def __init__(self, store: Store, nodes: NodeSummaries) -> None:
        self._reader = Reader(store)
        self._nodes = nodes

    def answer(self, request: Request) -> Response:
        """Return the targets of servers or nodes. Raises NotFound for any other path."""
        kinds = {"servers": self._servers, "nodes": self._through_here}
        listed = kinds.get(request.path.removeprefix(PREFIX))
        if listed is None:
            raise NotFound("there are targets of servers and of nodes", details={})
        return Response(200, msgspec.json.encode(listed(request.headers.get("host", ""))))

    def _servers(self, asked: str) -> list[JsonObject]:
        # Endpoints of the Service `default/kubernetes` are not used: other users may write them, and a scrape sends a
        # token.
        urls = [
            url
            for lease in self._reader.list(_LEASES, f"{NAMESPACE}/apiserver-")
            for url in ((lease.get("spec") or {}).get("holderIdentity") or "").split()
        ]
        found = {url.removeprefix("https://") for url in urls if url.startswith("https://")}
        return [{"targets": sorted(found) or [asked]}]

    def _through_here(self, asked: str) -> list[JsonObject]:
        return [
            {
                "targets": [asked],
                "labels": {
                    "__metrics_path__": f"/api/v1/nodes/{node.name}/proxy/metrics",
                    "instance": node.name,
                    "location": node.location,
                },
            }
            for node in self._nodes.all()
        ]
