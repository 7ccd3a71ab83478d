"""`tarmac completion`: a script for a shell, and what the script asks. Names come from the server in half a second.

Whatever goes wrong is silence: somebody is typing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from tarmac.api.nodetokens import SECRET_PREFIX
from tarmac.cli.completing import candidates, script
from tarmac.cli.verbs.objects import parse_object
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import LOCATIONS, NODES, SECRETS

PATIENCE = 0.4
_MOST = 500


def main(options: argparse.Namespace) -> int:
    """Print the script, or what may come next."""
    if options.shell != "words":
        sys.stdout.write(script(options.shell))
        return 0
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    for each in candidates(words, names):
        print(each)
    return 0


def names(kind: str) -> Sequence[str]:
    """Names of a kind on the server of the kubeconfig; none when it does not answer in time, or may not."""
    try:
        return asyncio.run(_within_patience(kind))
    except Exception:
        return []


async def _within_patience(kind: str) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        connection = load()
        client = Client(HttpTransport(connection.http))
        try:
            return await listed(client, kind, connection.namespace)
        finally:
            await client.close()


async def listed(client: Client, kind: str, namespace: str) -> list[str]:
    """Names of a kind; those of its namespace, where it has one."""
    if kind == "token":
        found = await client.resource(SECRETS).list("kube-system", fields="type=bootstrap.kubernetes.io/token")
        return [each["metadata"]["name"].removeprefix(SECRET_PREFIX) for each in found.items]
    cluster: dict[str, Target[Any]] = {"node": NODES, "location": LOCATIONS}
    target = cluster.get(kind) or parse_object([f"{kind}/x"])[0]
    listed = await client.resource(target).list("" if kind in cluster else namespace, limit=_MOST)
    return [each["metadata"]["name"] for each in listed.items]
