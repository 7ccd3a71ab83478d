"""`tarmac why KIND/NAME`, or just `NAME`: the server explains.

Where it cannot, the same functions explain from fetched lists.
"""

from __future__ import annotations

import msgspec

from tarmac.api.compute.explanations import Explanation
from tarmac.api.status import NotFound
from tarmac.cli.rendering.explanation import explanation_text
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import EXPLAINED, Json, bare_name, parse_object
from tarmac.client.client import Client
from tarmac.client.requests import JSON_ONLY

_read = msgspec.json.Decoder(Explanation).decode


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    words, output = call.options.object, call.options.output
    if name := bare_name(words):
        return await why_anything(call.client, call.namespace, name, call.console, output)
    target, name = parse_object(words)
    return await why(call.client, target, call.namespace, name, call.console, output)


async def why(client: Client, target: Json, namespace: str, name: str, console: Console, output: str) -> int:
    """Print the explanation. Raises NotFound when there is no such object."""
    found = await explain(client, target, namespace, name, console)
    if output == "json":
        console.show_json(found)
    else:
        console.say(explanation_text(found))
    return 0


async def why_anything(client: Client, namespace: str, name: str, console: Console, output: str) -> int:
    """Explain the first object of that name, in the order of `EXPLAINED`. Raises NotFound without one."""
    for target in EXPLAINED:
        try:
            return await why(client, target, namespace, name, console, output)
        except NotFound:
            continue
    kinds = ", ".join(target.kind for target in EXPLAINED)
    raise NotFound(f'nothing in namespace "{namespace}" is called "{name}": no {kinds}')


async def explain(client: Client, target: Json, namespace: str, name: str, console: Console) -> Explanation:
    """Return the explanation of an object."""
    try:
        reply = await client.call("GET", target.path(namespace, name, "why"), headers=JSON_ONLY)
    except NotFound:
        return await _explain_here(client, target, namespace, name, console)
    return _read(reply.body)


async def _explain_here(client: Client, target: Json, namespace: str, name: str, console: Console) -> Explanation:
    """Explain locally. Reading the object tells a missing object from a server without the subresource."""
    await client.resource(target).get(name, namespace)
    # Imported late: explaining takes half a second to load, and a Tarmac server does it remotely.
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.decide.explain import EXPLAINERS, looked_at

    resource = f"{target.group or 'core'}/{target.plural}"
    world = await fetch_world(client, console.warn, looked_at(resource))
    key = f"{namespace}/{name}" if target.namespaced else name
    found = EXPLAINERS[resource](world, key)
    if found is None:
        raise NotFound(f'{target.plural} "{name}" not found')
    return found
