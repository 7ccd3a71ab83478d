"""`tarmac completion`: shell completion scripts, and their candidates. The server has less than half a second to reply.

All errors are silent: the user is typing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from tarmac.api.nodetokens import SECRET_PREFIX
from tarmac.apps.commands import COMMANDS
from tarmac.cli import completing
from tarmac.cli.completing import Names, script
from tarmac.cli.flags import local_kubeconfig
from tarmac.cli.verbs.objectnames import parse_object
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import LOCATIONS, NODES, SECRETS

TIMEOUT = 0.4
_MAX_NAMES = 500


def main(options: argparse.Namespace) -> int:
    """Print the script, or the candidates."""
    if options.shell != "words":
        sys.stdout.write(script(options.shell))
        return 0
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    for each in candidates(words, names):
        print(each)
    return 0


def candidates(words: Sequence[str], names: Names) -> list[str]:
    """Return the candidates for the last word. `words` begins with the program's name."""
    return completing.candidates(COMMANDS, words, names)


def names(kind: str) -> Sequence[str]:
    """Return names of a kind from the kubeconfig's server; empty on a timeout or any error."""
    try:
        return asyncio.run(_with_timeout(kind))
    except Exception:
        return []


async def _with_timeout(kind: str) -> list[str]:
    async with asyncio.timeout(TIMEOUT):
        connection = load(local=local_kubeconfig())
        client = Client(HttpTransport(connection.http))
        try:
            return await listed(client, kind, connection.namespace)
        finally:
            await client.close()


async def listed(client: Client, kind: str, namespace: str) -> list[str]:
    """Return names of a kind, in the namespace if it is namespaced."""
    if kind == "token":
        found = await client.resource(SECRETS).list("kube-system", fields="type=bootstrap.kubernetes.io/token")
        return [each["metadata"]["name"].removeprefix(SECRET_PREFIX) for each in found.items]
    cluster: dict[str, Target[Any]] = {"node": NODES, "location": LOCATIONS}
    target = cluster.get(kind) or parse_object([f"{kind}/x"])[0]
    listed = await client.resource(target).list("" if kind in cluster else namespace, limit=_MAX_NAMES)
    return [each["metadata"]["name"] for each in listed.items]
