"""Runs one verb with a client of the kubeconfig's server.

Errors are printed on standard error, in the form of all commands.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tarmac.api.status import ApiError
from tarmac.cli.flags import local_kubeconfig
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.manifests import BadManifest
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load

FAILED, WRONG = 1, 2


@dataclass(frozen=True, slots=True)
class VerbCall:
    """One call of a verb. `namespace` is that of the flag, else that of the kubeconfig's context."""

    options: argparse.Namespace
    client: Client
    http: HttpConfig
    namespace: str
    console: Console


def run_verb(
    verb: Callable[[VerbCall], Awaitable[int]], options: argparse.Namespace, *, ends_normally: bool = False
) -> int:
    """Run one verb; return the exit code. `ends_normally`: an interrupt is the regular end of an endless verb."""
    console = Console(sys.stdout, sys.stderr)
    try:
        return asyncio.run(_run(verb, options, console))
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
        if ends_normally:
            return 0
    return FAILED


async def _run(verb: Callable[[VerbCall], Awaitable[int]], options: argparse.Namespace, console: Console) -> int:
    connection = load(options.kubeconfig, options.context, local=local_kubeconfig())
    client = Client(HttpTransport(connection.http))
    namespace = getattr(options, "namespace", None) or connection.namespace
    try:
        return await verb(VerbCall(options, client, connection.http, namespace, console))
    finally:
        await client.close()
