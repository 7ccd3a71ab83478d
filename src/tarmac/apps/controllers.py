"""`tarmac controllers`: the controllers in their own process, over HTTP, with any Kubernetes API server.

On a server that is not Tarmac's, its kinds must be installed first (`tarmac crds | kubectl apply -f -`); objects that
Workloads rely on, such as instance types, are created at start. Other objects there have their own controllers, so by
default only those of Workloads are changed: only the controllers of Workloads run, pods of other schedulers are left
alone, and no Network is created for pods that the cluster connects itself.

Of several processes one leads, elected through a Lease; the rest are idle.
"""

from __future__ import annotations

import argparse
import asyncio
import signal

import uvloop

from tarmac.agent.node.rotatingtransport import RotatingTransport
from tarmac.api.identities import BOOTSTRAP, controller_user
from tarmac.api.status import ApiError
from tarmac.apps.bootstrap import ensure_initial_objects, ensure_objects_of_workloads
from tarmac.apps.controllersettings import gates_of, names_of, settings_of
from tarmac.apps.healthport import serving_health
from tarmac.apps.leaderelection import elector
from tarmac.apps.serverfiles import follow_all, follow_credentials
from tarmac.base.clock import SystemClock
from tarmac.base.gates import BadGate, FeatureGates
from tarmac.base.log import configure, log
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.base.tasks import background, supervise
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.discovery import serves
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpConfig
from tarmac.client.kubeconfig import ServerContext, load
from tarmac.client.leader import Timing
from tarmac.client.targets.untyped import POD_ENDPOINTS
from tarmac.controllers.manager import ControllerManager, choose

_log = log("tarmac")


def main(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; return 0 then, 1 if the start failed, 2 for an unknown feature gate."""
    configure(level="debug" if options.verbose else "info", as_json=options.log_format == "json")
    try:
        choose(names_of(options))
        gates = gates_of(options, "controllers")
        timing = Timing(
            options.leader_elect_lease_duration, options.leader_elect_renew_deadline, options.leader_elect_retry_period
        )
        uvloop.run(run(options, gates, load(options.kubeconfig, options.context), timing))
    except BadGate as error:
        print_error(error)
        return 2
    except (OSError, ValueError, ClientError, ApiError) as error:
        print_error(error)
        return 1
    return 0


async def run(options: argparse.Namespace, gates: FeatureGates, connection: ServerContext, timing: Timing) -> None:
    """Connect, then run until a signal; print one line when the server has answered."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    clock, randomness = SystemClock(), Randomness()
    transport = RotatingTransport(connection.http, clock)
    client = Client(transport, clock, randomness)
    starting = Client(ActingAs(client.transport, controller_user(BOOTSTRAP)), clock, randomness)
    try:
        beside = not await serves(client, POD_ENDPOINTS)  # only Tarmac's own server has this resource
        manager = ControllerManager(
            client,
            names_of(options, beside=beside),
            root_ca=lambda: transport.config.ca or "",
            elector=elector(client, timing) if options.leader_elect else None,
            settings=settings_of(options, gates, beside=beside),
            networked=not beside,
        )

        async def work() -> None:
            await (ensure_objects_of_workloads if beside else ensure_initial_objects)(starting)
            await manager.run()

        def again() -> HttpConfig:
            return load(options.kubeconfig, options.context).http

        async with (
            serving_health(options.health_port),
            background(supervise("controllers", work, clock), "controllers"),
            background(follow_all(client, transport, connection), "servers of the cluster"),
            background(follow_credentials(again, transport, clock), "credentials"),
        ):
            print(f"tarmac controllers ready {connection.http.url}", flush=True)
            await stopping.wait()
            _log.info("stopping")
    finally:
        await client.close()
