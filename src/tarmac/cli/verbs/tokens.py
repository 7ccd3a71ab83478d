"""`tarmac token create|list|delete`: join tokens of hosts.

A token is shown once, when it is created. Lists show ids, which grant nothing.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from tarmac.api.nodetokens import (
    AUTHORITIES_PATH,
    KIND,
    LOCATION,
    MAX_SERVER_TTL,
    SECRET_PREFIX,
    SERVER,
    USES,
    NodeToken,
    secret_fields,
    token_secret,
    used_names,
)
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.duration import human_duration
from tarmac.cli.rendering.text import printable, table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.serverlist import KnownServers
from tarmac.client.targets.untyped import LOCATIONS, SECRETS

_NAMESPACE = "kube-system"
_FAILED = 1


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await token(call.client, call.options, call.console)


async def token(client: Client, options: argparse.Namespace, console: Console) -> int:
    """Execute one action; returns the exit code."""
    if options.action == "create":
        return await _create(client, options, console)
    if options.action == "list":
        return await _list(client, console, options.output)
    return await _delete(client, options.ids, console)


async def create_token(client: Client, location: str, uses: int, ttl: float) -> NodeToken:
    """Create a token for the nodes of an existing Location, or of a server without one.

    Raises ApiError, ClientError.
    """
    from tarmac.http.authorities import key_hash

    authorities = (await client.call("GET", AUTHORITIES_PATH, headers={"accept": "*/*"})).body
    expires = rfc3339(client.clock.now() + ttl)
    while True:
        letters = client.randomness.secret_letters
        made = NodeToken(letters(6), letters(16), key_hash(authorities))
        with suppress(AlreadyExists):  # the id is in use
            await client.resource(SECRETS).create(token_secret(made, location, uses, expires))
            return made


async def _create(client: Client, options: argparse.Namespace, console: Console) -> int:
    if options.server and (options.ttl > MAX_SERVER_TTL or options.uses != 1):
        console.fail("a server token has one use and lasts an hour at most: leave --uses out, and --ttl at 1h or less")
        return _FAILED
    try:
        if not options.server:
            await client.resource(LOCATIONS).get(options.location)
    except NotFound:
        known = sorted(each["metadata"]["name"] for each in (await client.resource(LOCATIONS).list()).items)
        there = f"there are {', '.join(known)}" if known else "there is none yet"
        console.fail(
            f'there is no location "{options.location}": {there}; create it with `tarmac location create CODE`'
        )
        return _FAILED
    made = await create_token(client, options.location, options.uses, options.ttl)
    if options.output == "json":
        expires = rfc3339(client.clock.now() + options.ttl)
        shown = {"token": made.text, "id": made.id, "location": options.location, "uses": options.uses}
        console.show_json({**shown, "expires": expires})
    else:
        console.say(f"{made.text}\n")
        if console.live:  # piped, the token alone is wanted
            await _print_join_command(client, made, options.server, console)
    return 0


async def _print_join_command(client: Client, made: NodeToken, server: bool, console: Console) -> None:
    """Print the command for the new host, with an address that other hosts can reach."""
    urls = sorted(await KnownServers(client, str)())
    reached = [place for place in (url.removeprefix("https://") for url in urls) if place and not _is_local(place)]
    if not reached:
        console.info("no other host reaches this server: it listens on loopback only (--listen)")
        return
    # The token goes through a pipe: `echo` is part of the shell, so no command line shows it to local users.
    command = f"tarmac join{' --server' if server else ''} {','.join(reached)} --token-file -"
    console.info(f"on the new host, as root: echo {made.text} | {command}")


def _is_local(place: str) -> bool:
    host = urlsplit(f"//{place}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _list(client: Client, console: Console, output: str) -> int:
    """List tokens of nodes and servers; plain bootstrap tokens are Kubernetes' own and left out."""
    fields = "type=bootstrap.kubernetes.io/token"
    found = [
        _described(each)
        async for page in client.resource(SECRETS).pages(_NAMESPACE, fields=fields)
        for each in page.items
        if KIND in (each.get("data") or {})
    ]
    if output == "json":
        console.show_json({"tokens": found})
        return 0
    if not found:
        print("no tokens; make one with `tarmac token create --location CODE`", file=console.err)
        return 0
    now = client.clock.now()
    rows = [[each["id"], _place(each), _uses(each), _left(each, now), ", ".join(each["used"])] for each in found]
    console.say(table(["ID", "LOCATION", "USES", "EXPIRES IN", "MACHINES"], rows) + "\n")
    return 0


async def _delete(client: Client, ids: list[str], console: Console) -> int:
    code = 0
    for each in dict.fromkeys(ids):
        # A whole token is accepted as well, so that a leaked one can be deleted by pasting it.
        name = each.split(".")[1] if each.startswith("tarmac1.") and each.count(".") == 3 else each
        try:
            await client.resource(SECRETS).delete(SECRET_PREFIX + name, _NAMESPACE)
            console.say(f'token "{name}" deleted; nodes that joined with it stay\n')
        except NotFound:
            console.fail(f'there is no token "{printable(name)}"')
            code = _FAILED
    return code


def _described(secret: JsonObject) -> JsonObject:
    fields = secret_fields(secret)
    try:
        used = used_names(fields)
    except ValueError:
        used = {}
    return {
        "id": secret["metadata"]["name"].removeprefix(SECRET_PREFIX),
        "kind": fields.get(KIND, ""),
        "location": fields.get(LOCATION, ""),
        "uses": int(fields[USES]) if fields.get(USES, "").isdecimal() else 0,
        "used": used,
        "expires": fields.get("expiration", ""),
    }


def _place(token: JsonObject) -> str:
    return "(server)" if token["kind"] == SERVER else str(token["location"])


def _uses(token: JsonObject) -> str:
    return f"{len(token['used'])}/{token['uses']}" if token["uses"] else "any"


def _left(token: JsonObject, now: float) -> str:
    try:
        left = parse_rfc3339(token["expires"]) - now
    except ValueError:
        return "never"
    return human_duration(left) if left > 0 else "over"
