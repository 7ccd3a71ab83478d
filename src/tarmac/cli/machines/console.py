"""`tarmac console`: the serial console of a VM, a shell in a sandbox; and recordings of sessions."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from tarmac.api.status import BadRequest, NotFound
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.cli.machines.consolesession import ConsoleClient
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint, find_instance
from tarmac.cli.rendering.text import table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import api_error
from tarmac.client.transport import ClientRequest
from tarmac.client.websockets import WebSocket, open_websocket
from tarmac.wire.channels import V4, V5

_MAX_PAUSE = 5.0  # seconds of silence in a replay
_SHELL = "command -v bash >/dev/null && exec bash || exec sh"


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    place = await find_instance(call.client, call.http, call.namespace, call.options.instance)
    return await console(call.client, place, call.options, call.console)


async def console(client: Client, place: InstanceEndpoint, options: argparse.Namespace, console: Console) -> int:
    """Open a session, list recordings, or replay one. Raises ApiError, ClientError."""
    if options.list:
        return await _list(client, place, console, options.output)
    if options.replay:
        return await replay(client, place, options.replay, options.speed, console, client.clock)
    randomness = client.randomness

    async def machine(since: str) -> WebSocket:
        return await open_console(place, randomness, since, keyboard=not options.watch, takeover=options.takeover)

    def say(text: str) -> None:
        # A raw terminal does not return the carriage by itself.
        print(f"\r[tarmac: {text}]\r", file=console.err, flush=True)

    out = sys.stdout.buffer
    try:
        return await ConsoleClient(machine, out, say, client.clock).run()
    except BadRequest as refusal:
        if "is not a virtual machine" not in refusal.message or options.watch:
            raise
    return await ConsoleClient(_shell(place, options.container, randomness), out, say, client.clock).run()


async def open_console(
    place: InstanceEndpoint, randomness: Randomness, since: str, *, keyboard: bool, takeover: bool
) -> WebSocket:
    """Open the serial console, through attach where the server has no other way. Raises ApiError, ClientError."""
    query = {"stdin": "true" if keyboard else "", "takeover": "true" if takeover else ""}
    try:
        return await open_websocket(place.http, place.path("console", since=since, **query), [V5, V4], randomness)
    except NotFound:  # the instance exists: it was found before
        return await open_websocket(place.http, place.attach_path(keyboard), [V5, V4], randomness)


def _shell(place: InstanceEndpoint, container: str, randomness: Randomness) -> Any:
    """Return a connector for a shell in a sandbox. A broken one is not resumed: it would be a new shell."""

    async def connect(since: str) -> WebSocket:
        if since:
            raise BadRequest("a shell cannot be taken up again")
        flags = [("stdin", "true"), ("stdout", "true"), ("tty", "true")]
        command = [("command", word) for word in ("sh", "-c", _SHELL)]
        named = [("container", container)] if container else []
        return await open_websocket(place.http, place.pod_path("exec", flags + command + named), [V5, V4], randomness)

    return connect


async def _list(client: Client, place: InstanceEndpoint, console: Console, output: str) -> int:
    answer = await _recordings(client, place)
    found: list[dict[str, Any]] = msgspec.json.decode(answer)["recordings"]
    if output == "json":
        console.show_json({"recordings": found})
    elif not found:
        console.say(f"No recordings of {place.name} on the node where it is.\n")
    else:
        fields = ("session", "user", "kind", "began", "ended", "bytes")
        rows = [[str(each.get(field, "")) for field in fields] for each in found]
        console.say(table([field.upper() for field in fields], rows) + "\n")
    return 0


async def replay(
    client: Client, place: InstanceEndpoint, session: str, speed: float, console: Console, clock: Clock
) -> int:
    """Show a recording in real time, or faster; at once with a speed of 0."""
    lines = (await _recordings(client, place, session)).splitlines()
    shown = 0.0
    for line in lines[1:]:
        at, code, text = msgspec.json.decode(line, type=tuple[float, str, str])
        if speed > 0:
            await clock.sleep(min(max(0.0, at - shown), _MAX_PAUSE) / speed)
        shown = at
        if code == "o":
            console.say(text)
        elif code == "m":
            print(f"\r[tarmac: {text}]\r", file=console.err, flush=True)
    return 0


async def _recordings(client: Client, place: InstanceEndpoint, session: str = "") -> bytes:
    path, _, query = place.path("recordings", session=session).partition("?")
    reply = await client.transport.request(ClientRequest("GET", path, query))
    if reply.status != 200:
        raise api_error(reply.status, reply.body)
    return reply.body
