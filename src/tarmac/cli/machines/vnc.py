"""`tarmac vnc`: the display of a VM on a local port, in a browser, or as one picture."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tarmac.api.status import ApiError, NotFound
from tarmac.base.tasks import first
from tarmac.cli.machines.places import Place, screen_path
from tarmac.cli.machines.screenshot import NoPicture, Screenshot
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.websockets import WebSocket, open_websocket

_PICTURE_TIMEOUT = 60.0
_CHUNK_SIZE = 64 * 1024
LOOPBACK = "127.0.0.1"


async def vnc(client: Client, place: Place, options: argparse.Namespace, console: Console) -> int:
    """Serve until interrupted, or take one picture. Raises ApiError, ClientError, OSError."""
    if options.screenshot:
        picture = await take_picture(client, place)
        Path(options.screenshot).write_bytes(picture.png())
        console.say(f"{options.screenshot}: {picture.width}x{picture.height}\n")
        return 0
    if options.browser:
        from tarmac.cli.machines.browser import serve_browser

        return await serve_browser(client, place, options.port, options.view, console)
    server = await asyncio.start_server(
        lambda reader, writer: _viewer(client, place, options.view, console, reader, writer),
        LOOPBACK,
        options.port,
    )
    console.say(f"vnc://{LOOPBACK}:{server.sockets[0].getsockname()[1]}\n")
    async with server:
        await server.serve_forever()
    return 0


async def open_screen(client: Client, place: Place, view: bool) -> WebSocket:
    """Open RFB in a WebSocket; through the node where the server has no subresource. Raises ApiError, ClientError."""
    path = place.path("vnc", view="true" if view else "")
    try:
        return await open_websocket(place.http, path, ["binary"], client.randomness)
    except NotFound:
        path = await screen_path(client, place, view)
        return await open_websocket(place.http, path, ["binary"], client.randomness)


async def take_picture(client: Client, place: Place) -> Screenshot:
    """Return the present picture. Raises ApiError, ClientError, OSError."""
    socket, picture = await open_screen(client, place, True), Screenshot()
    try:
        async with asyncio.timeout(_PICTURE_TIMEOUT):
            while not picture.done:
                message = await socket.receive()
                if message is None:
                    raise OSError(f"the machine's screen was closed: {socket.reason or 'no reason given'}")
                if answer := picture.receive(message):
                    await socket.send(answer)
    except NoPicture as error:
        raise OSError(str(error)) from error
    except TimeoutError:
        raise OSError(f"no picture came within {_PICTURE_TIMEOUT:.0f} s") from None
    finally:
        socket.close()
    return picture


async def _viewer(
    client: Client,
    place: Place,
    view: bool,
    console: Console,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Handle a viewer's connection, with its own session."""
    try:
        socket = await open_screen(client, place, view)
    except (ApiError, ClientError, OSError) as error:
        console.fail(str(error))
        writer.close()
        return
    try:
        await first(_to_machine(reader, socket), _to_viewer(socket, writer))
    except OSError as error:
        console.warn(f"the viewer has gone: {error}")
    finally:
        if socket.reason:
            console.warn(f"the session has ended: {socket.reason}")
        socket.close()
        writer.close()


async def _to_machine(reader: asyncio.StreamReader, socket: WebSocket) -> None:
    while data := await reader.read(_CHUNK_SIZE):
        await socket.send(data)


async def _to_viewer(socket: WebSocket, writer: asyncio.StreamWriter) -> None:
    while (message := await socket.receive()) is not None:
        writer.write(message)
        await writer.drain()
