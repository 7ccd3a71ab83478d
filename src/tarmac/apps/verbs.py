"""Tarmac's own verbs (`tarmac why`, `plan`, `console`, …): runs one verb with a client of the kubeconfig's server.

Errors are printed on standard error, in the form of all commands.
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
    """Run one verb; return the exit code."""
    console = Console(sys.stdout, sys.stderr)
    try:
        return asyncio.run(_run(options, console))
    except (BadObject, BadManifest) as error:
        console.fail(str(error))
        return WRONG
    except ApiError as error:
        console.fail(error.message)
    except BrokenPipeError:
        raise  # of our own output; connection errors are ClientErrors
    except (ClientError, OSError) as error:
        console.fail(str(error))
    except KeyboardInterrupt:
        if (options.command == "logs" and options.follow) or (options.command == "top" and options.watch):
            return 0  # the regular way to end an endless command
    return FAILED


async def _run(options: argparse.Namespace, console: Console) -> int:
    connection = load(options.kubeconfig, options.context)
    client = Client(HttpTransport(connection.http))
    try:
        return await _verb(options, client, connection, console)
    finally:
        await client.close()


async def _verb(options: argparse.Namespace, client: Client, connection: ServerContext, console: Console) -> int:
    if options.command == "token":
        from tarmac.cli.verbs.tokens import token

        return await token(client, options, console)
    if options.command == "restored":
        from tarmac.cli.verbs.restored import restored

        return await restored(client, options, console)
    if options.command == "status":
        from tarmac.cli.verbs.clusterstatus import status

        return await status(client, console, options.output)
    if options.command == "rotate":
        from tarmac.cli.verbs.rotate import rotate

        return await rotate(client, options, console)
    if options.command == "user":
        from tarmac.cli.verbs.users import user

        return await user(client, connection.http, options, console)
    if options.command == "node" and options.action == "remove":
        from tarmac.cli.verbs.noderemoval import node_remove

        return await node_remove(client, options.name, console, force=options.force)
    if options.command == "node":
        from tarmac.cli.verbs.nodereport import node_report

        return await node_report(client, options.names, console, options.output)
    namespace = options.namespace or connection.namespace
    if options.command == "image":
        from tarmac.cli.uploads.upload import upload

        return await upload(client, connection.http, namespace, options, console)
    if options.command in ("console", "vnc", "machine"):
        return await _into_machine(options, client, connection, namespace, console)
    if options.command == "plan":
        from tarmac.cli.verbs.plan import plan

        return await plan(client, namespace, options.filename, options.without, console, options.output)
    if options.command == "logs":
        from tarmac.cli.logs.logs import logs

        return await logs(client, namespace, options, console)
    if options.command == "top":
        from tarmac.cli.top.top import top

        return await top(client, namespace, options, console)
    if options.command == "egress":
        from tarmac.cli.egress.check import egress_check

        http, pod = connection.http, options.from_pod
        return await egress_check(client, http, namespace, options.name, pod, console, options.output)
    if options.command == "rollout":
        from tarmac.cli.verbs.rollout import rollout

        return await rollout(client, namespace, options, console)
    if options.reach or options.both:
        from tarmac.cli.verbs.reach import reach

        return await reach(client, namespace, options, console)
    from tarmac.cli.verbs.why import why, why_anything

    if name := bare_name(options.object):
        return await why_anything(client, namespace, name, console, options.output)
    target, name = parse_object(options.object)
    return await why(client, target, namespace, name, console, options.output)


async def _into_machine(
    options: argparse.Namespace, client: Client, connection: ServerContext, namespace: str, console: Console
) -> int:
    from tarmac.cli.machines.places import find_instance

    place = await find_instance(client, connection.http, namespace, options.instance)
    if options.command == "machine":
        from tarmac.cli.machines.power import press

        return await press(client, place, options.action, console, options.output)
    if options.command == "vnc":
        from tarmac.cli.machines.vnc import vnc

        return await vnc(client, place, options, console)
    from tarmac.cli.machines import console as consoles

    return await consoles.console(client, place, options, console)
