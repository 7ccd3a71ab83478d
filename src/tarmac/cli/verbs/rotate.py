"""`tarmac rotate ca|tokens|encryption`: a new key for the cluster, without interrupting clients.

The servers take the steps themselves; the verb starts them, shows the status, and requests the end of the old key.
"""

from __future__ import annotations

import argparse

import msgspec

from tarmac.api.rotations import ROTATIONS_PATH, RotationRequest
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client

_OBSTACLES = 3
_SETTLED = "settled"
_STAGES = {
    "ca": {
        _SETTLED: "one authority signs, and no other is trusted",
        "trusted": "a new authority is trusted; it signs as soon as every server and node trusts it",
        "signing": "the new authority signs, certificates of the old one are still good: --retire ends them",
    },
    "tokens": {
        _SETTLED: "one key signs, and no other is trusted",
        "trusted": "a new key is trusted; it signs as soon as every server trusts it",
        "signing": "the new key signs, tokens of the old one are still good: --retire ends them",
    },
    "encryption": {
        _SETTLED: "one key seals, and no other opens anything",
        "trusted": "there is a new key; it seals as soon as every server has it",
        "sealing": "the new key encrypts, and values of the old one are being rewritten",
        "sealed": "everything is sealed with the new key, and servers still have the old one: --retire ends it",
    },
}
_TOKENS_OF_MACHINES = "join tokens name the authority that they were made under: make new ones after the switch"


class RotationStatus(msgspec.Struct):
    """The server's response."""

    stage: str
    signing: str
    trusted: list[str]
    since: str
    obstacles: list[str]
    waiting: list[str] = []


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await rotate(call.client, call.options, call.console)


async def rotate(client: Client, options: argparse.Namespace, console: Console) -> int:
    """Start, retire or show the status; returns the exit code."""
    path = f"{ROTATIONS_PATH}{options.what}"
    if options.status:
        answer = await client.call("GET", path)
    else:
        request = RotationRequest("retire" if options.retire else "begin", options.force)
        answer = await client.call("POST", path, body=msgspec.json.encode(request))
    found = msgspec.json.decode(answer.body, type=RotationStatus)
    for each in found.obstacles:
        console.fail(each)
    if found.obstacles:
        console.fail(f"nothing was retired; {_INSISTING[options.what]}")
        return _OBSTACLES
    if options.output == "json":
        console.show_json(found)
    else:
        _print_status(found, options, console)
    return 0


_INSISTING = {
    "ca": "--force does it nevertheless once the new authority signs",
    "tokens": "--force does it nevertheless once the new key signs",
    "encryption": "--force changes nothing: Secrets would be lost",
}


def _print_status(found: RotationStatus, options: argparse.Namespace, console: Console) -> None:
    console.say(f"{found.stage}: {_STAGES[options.what][found.stage]} (since {found.since})\n")
    for each in found.waiting:
        console.say(f"  waits for {each}\n")
    if options.what == "ca" and not options.status and found.stage != _SETTLED:
        console.say(f"  {_TOKENS_OF_MACHINES}\n")
