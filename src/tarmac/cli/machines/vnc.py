"""`tarmac vnc`: the display of a VM on a local port, in a browser, or as one picture."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tarmac.cli.machines.browser import serve_browser
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint, find_instance, open_screen
from tarmac.cli.machines.rfb import RfbFault
from tarmac.cli.machines.screenshot import Screenshot
from tarmac.cli.machines.viewers import Viewers
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client

_PICTURE_TIMEOUT = 60.0
LOOPBACK = "127.0.0.1"


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    place = await find_instance(call.client, call.http, call.namespace, call.options.instance)
    return await vnc(call.client, place, call.options, call.console)


async def vnc(client: Client, place: InstanceEndpoint, options: argparse.Namespace, console: Console) -> int:
    """Serve until interrupted, or take one picture. Raises ApiError, ClientError, OSError."""
    if options.screenshot:
        picture = await take_picture(client, place)
        Path(options.screenshot).write_bytes(picture.png())
        console.say(f"{options.screenshot}: {picture.width}x{picture.height}\n")
        return 0
    if options.browser:
        return await serve_browser(client, place, options.port, options.view, console)
    viewers = Viewers(lambda: open_screen(client, place, options.view), console, client.clock, client.randomness)
    server = await asyncio.start_server(viewers.serve, LOOPBACK, options.port)
    # The password is no part of the URL: people would paste it into a command line, which every local user can see.
    console.say(f"vnc://{LOOPBACK}:{server.sockets[0].getsockname()[1]}\npassword: {viewers.password}\n")
    async with server:
        await server.serve_forever()
    return 0


async def take_picture(client: Client, place: InstanceEndpoint) -> Screenshot:
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
    except RfbFault as error:
        raise OSError(str(error)) from error
    except TimeoutError:
        raise OSError(f"no picture came within {_PICTURE_TIMEOUT:.0f} s") from None
    finally:
        socket.close()
    return picture
