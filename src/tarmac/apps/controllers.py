"""`tarmac controllers`: the controllers in a process of their own, over HTTP, against any Kubernetes API server.

On a server that is not Tarmac's, its kinds must be there first (`tarmac crds | kubectl apply -f -`); the objects that
controllers rely on, such as instance types, are made at start. Of several processes one leads, elected through a Lease;
the others wait with empty hands.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

import uvloop

from tarmac.api.identities import BOOTSTRAP, controller_user
from tarmac.api.status import ApiError
from tarmac.apps.bootstrap import ensure_initial_objects
from tarmac.apps.electing import elector
from tarmac.apps.settings import settings_of
from tarmac.apps.tasks import ended, supervise
from tarmac.base.clock import SystemClock
from tarmac.base.log import configure, log
from tarmac.base.randomness import Randomness
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import Connection, load
from tarmac.client.leader import Timing
from tarmac.controllers.manager import Manager, choose

_log = log("tarmac")


def main(options: argparse.Namespace) -> int:
    """Work until SIGTERM or SIGINT; the exit code is 0 then, 1 when it could not start."""
    configure(level="debug" if options.verbose else "info", as_json=options.log_format == "json")
    try:
        choose(options.controllers)
        timing = Timing(
            options.leader_elect_lease_duration, options.leader_elect_renew_deadline, options.leader_elect_retry_period
        )
        uvloop.run(run(options, load(options.kubeconfig, options.context), timing))
    except (OSError, ValueError, ClientError, ApiError) as error:
        print(f"tarmac: {error}", file=sys.stderr)
        return 1
    return 0


async def run(options: argparse.Namespace, connection: Connection, timing: Timing) -> None:
    """Connect, then work until a signal comes; one line says when the server has answered."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    clock, randomness = SystemClock(), Randomness()
    client = Client(HttpTransport(connection.http), clock, randomness)
    manager = Manager(
        client,
        options.controllers,
        root_ca=connection.http.ca or "",
        elector=elector(client, timing) if options.leader_elect else None,
        settings=settings_of(options),
    )

    starting = Client(ActingAs(client.transport, controller_user(BOOTSTRAP)), clock, randomness)

    async def work() -> None:
        await ensure_initial_objects(starting)
        await manager.run()

    try:
        await client.get_json("/version")
        async with ended(asyncio.create_task(supervise("controllers", work, clock))):
            print(f"tarmac controllers ready {connection.http.url}", flush=True)
            await stopping.wait()
            _log.info("stopping")
    finally:
        await client.close()
