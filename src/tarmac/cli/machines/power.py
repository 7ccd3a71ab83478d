"""`tarmac machine`: power actions of a VM."""

from __future__ import annotations

import msgspec

from tarmac.cli.machines.instanceendpoint import InstanceEndpoint, find_instance
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import api_error
from tarmac.client.targets.typed import INSTANCES
from tarmac.client.transport import ClientRequest

DONE = {
    "reboot": "rebooting",
    "reset": "reset",
    "pause": "paused",
    "resume": "resumed",
    "stop": "stopping",
    "start": "starting",
}
"""The printed result of each action."""
_RUNNING = {"stop": False, "start": True}


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    place = await find_instance(call.client, call.http, call.namespace, call.options.instance)
    return await press(call.client, place, call.options.action, call.console, call.options.output)


async def press(client: Client, place: InstanceEndpoint, action: str, console: Console, output: str) -> int:
    """Execute a power action. Raises ApiError, ClientError."""
    body = msgspec.json.encode({"action": action.capitalize()})
    headers = {"content-type": "application/json"}
    reply = await client.transport.request(ClientRequest("POST", place.path("power"), headers=headers, body=body))
    if reply.status == 404 and action in _RUNNING:
        # A Kubernetes API server with Tarmac's CRDs has no such subresource: the field itself is written.
        patch = {"spec": {"runtime": {"virtualMachine": {"running": _RUNNING[action]}}}}
        await client.resource(INSTANCES.typed(dict)).patch(place.name, patch, place.namespace)
    elif reply.status >= 300:
        raise api_error(reply.status, reply.body)
    if output == "json":
        console.show_json({"instance": place.name, "namespace": place.namespace, "action": action.capitalize()})
    else:
        console.say(f"instance/{place.name} {DONE[action]}\n")
    return 0
