"""`--health-port`: `/healthz` for the probes of a kubelet, which has no credentials and no CA for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from tarmac.http.listener import serve
from tarmac.http.messages import Request, Response
from tarmac.server.endpoints.health import HealthEndpoint

_ANY_ADDRESS: Final = ""
_PATH: Final = "/healthz"


@asynccontextmanager
async def serving_health(port: int | None) -> AsyncGenerator[None]:
    """Respond while the event loop turns; without a port do nothing. Raises OSError when the port is in use."""
    if port is None:
        yield
        return
    health = HealthEndpoint("healthz", {})

    def answer(request: Request) -> Response:
        found = health.answer(request, "") if request.path == _PATH else None
        return found or Response(404, b"only /healthz is served here\n", "text/plain")

    listener = await serve(answer, None, _ANY_ADDRESS, port, accelerate="off")
    try:
        yield
    finally:
        await listener.stop(grace=1.0)
