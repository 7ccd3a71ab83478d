"""A server with a constant response, on Tarmac's own HTTP and TLS layer: the floor for GET."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from tarmac.http.listener import serve
from tarmac.http.messages import Request, Response
from tarmac.http.tls import server_context

BODY = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"' + b"x" * 1100 + b'"}}'


def answer(request: Request) -> Response:
    """Always the same 1.2 KB."""
    return Response(200, BODY)


async def main(pki: Path) -> None:
    """Serve until killed; the port goes to standard output."""
    context = server_context(pki / "server.crt", pki / "server.key", pki / "ca.crt")
    listener = await serve(answer, context, "127.0.0.1", 0)
    print(listener.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
