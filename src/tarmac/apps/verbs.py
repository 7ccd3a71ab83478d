"""`tarmac why`, `plan`, `rollout` and `node report`: a client of the server of a kubeconfig, and one verb on it.

Errors are told as kubectl tells them, on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from tarmac.api.status import ApiError
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.manifests import BadManifest
from tarmac.cli.verbs.objects import BadObject, bare_name, parse_object
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import ServerContext, load

FAILED, WRONG = 1, 2


def main(options: argparse.Namespace) -> int:
    """Run one verb; returns the exit code."""
    console = Console(sys.stdout, sys.stderr)
    try:
        return asyncio.run(_run(options, console))
    except (BadObject, BadManifest) as error:
        print(f"error: {error}", file=console.err)
        return WRONG
    except ApiError as error:
        print(f"Error from server ({error.status_reason or error.http_code}): {error.message}", file=console.err)
    except BrokenPipeError:
        raise  # of our own output; errors of connections are ClientErrors
    except (ClientError, OSError) as error:
        print(f"error: {error}", file=console.err)
    except KeyboardInterrupt:
        pass
    return FAILED


async def _run(options: argparse.Namespace, console: Console) -> int:
    connection = load(options.kubeconfig, options.context)
    client = Client(HttpTransport(connection.http))
    try:
        return await _verb(options, client, connection, console)
    finally:
        await client.close()


async def _verb(options: argparse.Namespace, client: Client, connection: ServerContext, console: Console) -> int:
    if options.command == "node":
        from tarmac.cli.verbs.nodereport import node_report

        return await node_report(client, options.names, console, options.output)
    namespace = options.namespace or connection.namespace
    if options.command == "plan":
        from tarmac.cli.verbs.plan import plan

        return await plan(client, namespace, options.filename, options.without, console, options.output)
    if options.command == "rollout":
        from tarmac.cli.verbs.rollout import rollout

        return await rollout(client, namespace, options, console)
    from tarmac.cli.verbs.why import why, why_anything

    if name := bare_name(options.object):
        return await why_anything(client, namespace, name, console, options.output)
    target, name = parse_object(options.object)
    return await why(client, target, namespace, name, console, options.output)
