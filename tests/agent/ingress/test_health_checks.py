"""Load balancers outside ask a node for the health of a Service."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from tarmac.agent.ingress.healthchecks import HealthCheckServer
from tarmac.agent.ingress.servicefacts import ServiceHealth

pytestmark = pytest.mark.timeout(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


async def asked(port: int) -> tuple[int, dict[str, object]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


async def test_the_answer_counts_the_endpoints_of_the_node_and_ports_come_and_go() -> None:
    server, first, second = HealthCheckServer(("127.0.0.1",)), free_port(), free_port()
    try:
        await server.serve({first: ServiceHealth("shop", "web", 2)})
        body = {"service": {"namespace": "shop", "name": "web"}, "localEndpoints": 2, "serviceProxyHealthy": True}
        assert await asked(first) == (200, body)
        await server.serve({first: ServiceHealth("shop", "web", 0), second: ServiceHealth("shop", "other", 1)})
        assert await asked(first) == (503, body | {"localEndpoints": 0})
        assert (await asked(second))[0] == 200
        await server.serve({second: ServiceHealth("shop", "other", 1)})
        with pytest.raises(ConnectionError):
            await asked(first)
    finally:
        await server.stop()


async def test_a_port_that_is_taken_is_served_once_it_is_free() -> None:
    server, wanted = HealthCheckServer(("127.0.0.1",)), {}
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            wanted = {listening.getsockname()[1]: ServiceHealth("shop", "web", 1)}
            await server.serve(wanted)
        await server.serve(wanted)
        assert (await asked(*wanted))[0] == 200
    finally:
        await server.stop()
