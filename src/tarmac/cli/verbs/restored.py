"""`tarmac restored list|adopt|remove`: running pods that differ from a restored store."""

from __future__ import annotations

import argparse

import msgspec

from tarmac.api.restored import RESTORED_PATH, RestoredDecision
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.cli.rendering.text import printable, table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client

_FAILED, _WRONG = 1, 2


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await restored(call.client, call.options, call.console)


async def restored(client: Client, options: argparse.Namespace, console: Console) -> int:
    """Execute one action; returns the exit code. Raises ApiError, ClientError."""
    if options.action == "list":
        return await _list(client, console, options.output)
    if bool(options.pods) == options.all:
        console.fail("name pods as NAMESPACE/POD, or give --all")
        return _WRONG
    if bad := [each for each in options.pods if each.count("/") != 1]:
        console.fail(f"{printable(bad[0])} is not NAMESPACE/POD")
        return _WRONG
    code = 0
    for each in await _found(client) if options.all else [_named(each, options.node) for each in options.pods]:
        decision = RestoredDecision(options.action, each["namespace"], each["name"], each["node"])
        try:
            reply = await client.call("POST", RESTORED_PATH, body=msgspec.json.encode(decision))
        except NotFound as error:
            if not options.all:  # else it has ended meanwhile
                console.fail(error.message)
                code = _FAILED
        except ApiError as error:
            console.fail(f"{each['namespace']}/{each['name']}: {error.message}")
            code = _FAILED
        else:
            console.say(f"{printable(msgspec.json.decode(reply.body)['done'])}\n")
    return code


async def _list(client: Client, console: Console, output: str) -> int:
    found = await _found(client)
    if output == "json":
        console.show_json({"conflicts": found})
        return 0
    if not found:
        print("no conflicts", file=console.err)
        return 0
    rows = [[each["namespace"], each["name"], each["node"], each["uid"], _why(each)] for each in found]
    console.say(table(["NAMESPACE", "POD", "NODE", "UID", "WHY"], rows) + "\n")
    return 0


async def _found(client: Client) -> list[JsonObject]:
    return msgspec.json.decode((await client.call("GET", RESTORED_PATH)).body)["items"]


def _named(text: str, node: str) -> JsonObject:
    namespace, _, name = text.partition("/")
    return {"namespace": namespace, "name": name, "node": node}


def _why(conflict: JsonObject) -> str:
    return "is being ended" if conflict["removed"] else str(conflict["why"])
