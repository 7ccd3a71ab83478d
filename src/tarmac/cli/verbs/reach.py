"""`tarmac why instance/A --reach B:443`: the server computes it.

Where it cannot, the same functions use fetched lists.
"""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from tarmac.api.compute.explanations import Reachability
from tarmac.api.status import NotFound
from tarmac.cli.rendering.explanation import reachability_text
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject, Json, parse_object
from tarmac.client.client import Client
from tarmac.client.requests import JSON_ONLY
from tarmac.decide.reach.question import BadQuestion, ReachQuestion, ReachTarget, question_of

NOT_REACHED: Final = 3
_read = msgspec.json.Decoder(Reachability).decode


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await reach(call.client, call.namespace, call.options, call.console)


async def reach(client: Client, namespace: str, options: argparse.Namespace, console: Console) -> int:
    """Print the result; the exit code states it too. Raises BadObject, NotFound."""
    if not options.reach:
        raise BadObject("--both belongs to --reach")
    target, name = parse_object(
        options.object, "" if "/" in options.object[0] or len(options.object) > 1 else "instance"
    )
    if target.plural not in ("instances", "pods"):
        raise BadObject(f"a {target.kind} reaches nothing; name an instance or a pod")
    question = asked(options.reach, namespace, both=options.both)
    found = await answered(client, target, namespace, name, question, console)
    if options.output == "json":
        console.show_json(found)
    else:
        console.say(reachability_text(found))
    answers = {found.answer, found.reverse.answer if found.reverse is not None else "Yes"}
    return 0 if answers == {"Yes"} else NOT_REACHED


def asked(text: str, namespace: str, *, both: bool = False) -> ReachQuestion:
    """Parse `TARGET:PORT[/udp]`. Raises BadObject."""
    target, colon, behind = text.rpartition(":")
    port, _, protocol = behind.partition("/")
    if not colon or not target or (":" in target and not target.startswith("[")):
        raise BadObject(f"--reach {text!r} is not TARGET:PORT, such as web-0:443, service/web:http or [fd20::5]:53/udp")
    try:
        return question_of(target, port, protocol, namespace, both=both)
    except BadQuestion as error:
        raise BadObject(f"--reach {text!r}: {error}") from error


async def answered(
    client: Client, target: Json, namespace: str, name: str, question: ReachQuestion, console: Console
) -> Reachability:
    """Return the result, computed by the server or locally."""
    to = question.target
    written = to.name if to.kind == "address" else f"{to.kind}/{to.namespace}/{to.name}"
    query = {"reach": written, "port": question.port, "protocol": question.protocol, "both": question.both}
    try:
        reply = await client.call("GET", target.path(namespace, name, "why"), query, headers=JSON_ONLY)
    except NotFound as error:
        # The missing object may be the target, the object itself, or, on a different server, the subresource.
        if (error.details or {}).get("name") == to.name != name:
            raise
        return await _answer_here(client, target, namespace, name, question, console)
    return _read(reply.body)


async def _answer_here(
    client: Client, target: Json, namespace: str, name: str, question: ReachQuestion, console: Console
) -> Reachability:
    """Compute locally. Reading the object tells a missing object from a server without the subresource."""
    await client.resource(target).get(name, namespace)
    # Imported late: it takes a while to load, and a Tarmac server does it remotely.
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.decide.reach.reachability import NoSuchTarget, reachability
    from tarmac.decide.reach.world import LOOKED_AT

    world = await fetch_world(client, console.warn, LOOKED_AT)
    sender = ReachTarget("instance" if target.plural == "instances" else "pod", namespace, name)
    try:
        return reachability(world, sender, question, lambda _namespace: True)
    except BadQuestion as error:
        raise BadObject(str(error)) from error
    except NoSuchTarget as error:
        raise NotFound(str(error)) from error
