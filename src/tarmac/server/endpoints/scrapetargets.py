"""What a Prometheus is to scrape, as its HTTP service discovery reads it.

    GET /tarmac/v1/targets/servers    every address that a server announces by its Lease
    GET /tarmac/v1/targets/nodes      every node, through the server that was asked

A server that is announced nowhere, since it listens on loopback only, names the address it was asked at.
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
    """Answers by the last segment of the path."""

    def __init__(self, store: Store, nodes: NodeSummaries) -> None:
        self._reader = Reader(store)
        self._nodes = nodes

    def answer(self, request: Request) -> Response:
        """Raises NotFound for what there are no targets of."""
        kinds = {"servers": self._servers, "nodes": self._through_here}
        listed = kinds.get(request.path.removeprefix(PREFIX))
        if listed is None:
            raise NotFound("there are targets of servers and of nodes", details={})
        return Response(200, msgspec.json.encode(listed(request.headers.get("host", ""))))

    def _servers(self, asked: str) -> list[JsonObject]:
        # Not what stands behind the Service `default/kubernetes`: others may write there, and a scrape brings a token.
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
