"""`tarmac machine`: the buttons of a machine."""

from __future__ import annotations

import msgspec

from tarmac.cli.machines.places import Place
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import api_error
from tarmac.client.transport import Request

DONE = {"reboot": "rebooting", "reset": "reset", "pause": "paused", "resume": "resumed"}
"""What is said of an action that was taken."""


async def press(client: Client, place: Place, action: str, console: Console, output: str) -> int:
    """Press it. Raises ApiError, ClientError."""
    body = msgspec.json.encode({"action": action.capitalize()})
    headers = {"content-type": "application/json"}
    reply = await client.transport.request(Request("POST", place.path("power"), headers=headers, body=body))
    if reply.status >= 300:
        raise api_error(reply.status, reply.body)
    if output == "json":
        console.show_json({"instance": place.name, "namespace": place.namespace, "action": action.capitalize()})
    else:
        console.say(f"instance/{place.name} {DONE[action]}\n")
    return 0
