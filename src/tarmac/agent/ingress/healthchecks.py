"""Answers load balancers outside at the `healthCheckNodePort` of Services, as kube-proxy does.

200 while this node has a ready endpoint of the Service, else 503; the body counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tarmac.agent.ingress.servicefacts import ServiceHealth
from tarmac.base.log import log
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.messages import Request, Response

# All connections are unauthenticated, and any host may open them.
LIMITS: Final = ListenerLimits(
    body=0, head=4096, pipeline=1, head_time=5, body_time=5, write_time=5, idle_time=10, unauthenticated=64
)
_HOSTS: Final = ("0.0.0.0", "::")

_log = log("ingress")


class HealthCheckServer:
    """The HTTP servers of one node. `hosts` are the addresses to listen at."""

    def __init__(self, hosts: tuple[str, ...] = _HOSTS) -> None:
        self._hosts = hosts
        self._listeners: dict[int, Listener] = {}
        self._services: Mapping[int, ServiceHealth] = {}

    async def serve(self, services: Mapping[int, ServiceHealth]) -> None:
        """Answer at exactly these ports. One that is taken is logged, and tried again by the next call."""
        self._services = services
        for port in self._listeners.keys() - services.keys():
            await self._listeners.pop(port).stop(grace=0)
        for port in services.keys() - self._listeners.keys():
            listener = Listener(lambda request, port=port: self._answer(request, port), LIMITS)
            try:
                await listener.start(self._hosts, port, None)
            except OSError as error:
                await listener.stop(grace=0)
                _log.warning("health checks of a Service cannot be answered", port=port, why=str(error))
            else:
                self._listeners[port] = listener

    async def stop(self) -> None:
        """Close all ports."""
        await self.serve({})

    def _answer(self, _: Request, port: int) -> Response:
        found = self._services[port]
        body = {
            "service": {"namespace": found.namespace, "name": found.name},
            "localEndpoints": found.endpoints,
            "serviceProxyHealthy": True,
        }
        headers = [("X-Load-Balancing-Endpoint-Weight", str(found.endpoints))]
        return Response(200 if found.endpoints else 503, msgspec.json.encode(body), headers=headers)
