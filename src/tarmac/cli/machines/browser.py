"""A VM's display in a browser: Debian's noVNC, served on loopback to one viewer.

The URL has a path that cannot be guessed, so no other page or local user finds it, and the browser is started with a
private file that redirects there: its command line does not show the path. Requests with a Host header other than the
loopback address are refused, which prevents DNS rebinding.
"""

from __future__ import annotations

import asyncio
import hmac
import mimetypes
import webbrowser
from collections.abc import Callable
from pathlib import Path

from tarmac.api.status import ApiError
from tarmac.base.tasks import Tasks
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint, open_screen
from tarmac.cli.redirectfile import redirect_file
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.websockets import WebSocket
from tarmac.http.listener import serve
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, MessageChunk, Socket, accept_key, offered

NOVNC = Path("/usr/share/novnc")
LOOPBACK = "127.0.0.1"


async def serve_browser(client: Client, place: InstanceEndpoint, port: int, view: bool, console: Console) -> int:
    """Serve until interrupted. Raises OSError."""
    if not (NOVNC / "vnc_lite.html").is_file():
        console.fail(f"noVNC is not in {NOVNC}: install it (apt-get install novnc), or leave --browser out")
        return 1
    page = BrowserPage(client, place, view, console)
    listener = await serve(page.answer, None, LOOPBACK, port, accelerate="off")
    url = page.url(listener.port)
    console.say(f"{url}\n")
    try:
        with redirect_file(url) as file:
            await asyncio.to_thread(webbrowser.open, file.as_uri())
            await asyncio.get_running_loop().create_future()
    finally:
        await page.close()
        await listener.stop(0.1)
    return 0


class BrowserPage:
    """Serves a browser: files of noVNC, and one WebSocket."""

    def __init__(
        self, client: Client, place: InstanceEndpoint, view: bool, console: Console, files: Path = NOVNC
    ) -> None:
        self._client = client
        self._place = place
        self._view = view
        self._console = console
        self._files = files.resolve()
        self._secret = client.randomness.token(24)
        self._host = ""
        self._taken = False
        self._tasks = Tasks()

    def url(self, port: int) -> str:
        """Return the URL for the browser."""
        self._host = f"{LOOPBACK}:{port}"
        return f"http://{self._host}/{self._secret}/vnc_lite.html?path={self._secret}/stream&scale=true"

    async def answer(self, request: Request) -> Answer:
        """Handle a request."""
        if request.headers.get("host") != self._host:
            return Response(403, b"not under this name", "text/plain")
        secret, _, rest = request.path.lstrip("/").partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return Response(404, b"not found", "text/plain")
        return await self._stream(request) if rest == "stream" else await asyncio.to_thread(self._file, rest)

    async def close(self) -> None:
        await self._tasks.close()

    def _file(self, name: str) -> Response:
        path = (self._files / name).resolve()
        if not path.is_relative_to(self._files) or not path.is_file():
            return Response(404, b"not found", "text/plain")
        return Response(200, path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream")

    async def _stream(self, request: Request) -> Answer:
        if self._taken:
            return Response(409, b"somebody looks already", "text/plain")
        try:
            key, protocols = offered(request.headers)
            socket = await open_screen(self._client, self._place, self._view)
        except ProtocolViolation as error:
            return Response(400, str(error).encode(), "text/plain")
        except (ApiError, ClientError, OSError) as error:
            self._console.fail(str(error))
            return Response(502, str(error).encode(), "text/plain")
        self._taken = True
        headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key))]
        if "binary" in protocols:
            headers.append(("Sec-WebSocket-Protocol", "binary"))

        def start(transport: asyncio.Transport, rest: bytes) -> None:
            _Bridge(transport, socket, self._tasks, self._left).start(rest)

        return UpgradeResponse(start, headers, lambda: self._abandoned(socket))

    def _abandoned(self, socket: WebSocket) -> None:
        socket.close()
        self._left()

    def _left(self) -> None:
        self._taken = False


class _Bridge(asyncio.Protocol):
    """Connects the browser's WebSocket with the server's."""

    def __init__(self, transport: asyncio.Transport, remote: WebSocket, tasks: Tasks, over: Callable[[], None]) -> None:
        self._transport = transport
        self._remote = remote
        self._over = over
        self._tasks = tasks
        self._socket = Socket()
        self._writable = asyncio.Event()
        self._writable.set()

    def start(self, rest: bytes) -> None:
        """Take over the connection."""
        self._transport.set_protocol(self)
        self._task = self._tasks.begin(self._to_browser(), "a screen in a browser")
        if rest:
            self.data_received(rest)

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._socket.receive(data):
                if isinstance(event, MessageChunk) and event.data:
                    self._remote.send_soon(event.data)
                elif isinstance(event, Closed):
                    self._transport.close()
        except ProtocolViolation:
            self._transport.abort()
        self._flush()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()
        self._remote.close()
        self._over()

    async def _to_browser(self) -> None:
        while (message := await self._remote.receive()) is not None:
            self._socket.send(message)
            self._flush()
            await self._writable.wait()
        self._transport.close()

    def _flush(self) -> None:
        out = self._socket.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
