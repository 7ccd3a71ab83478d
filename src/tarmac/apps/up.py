"""`tarmac up`: everything on one machine: server, controllers, and the nodes of every city, simulated.

Simulated nodes live in the same process and need no rights at all. Their Locations and nodes are ordinary objects, so
what is there after a restart is adopted: pods that ran go on running.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tarmac.apps import server
from tarmac.apps.control_plane import Running, local_transport
from tarmac.apps.tasks import ended
from tarmac.client.client import Client
from tarmac.server.security.users import User
from tarmac.sim.metrics import SimulatedMetrics
from tarmac.sim.nodes.fleet import Fleet
from tarmac.sim.nodes.objects import LOCATIONS, location
from tarmac.sim.nodes.settings import Heartbeat, Place

NODES = User("system:tarmac:simulated-nodes", groups=("system:masters", "system:authenticated"))
_FIELD_MANAGER = "tarmac-up"
_WHY_SIMULATED = "runtime sim: this version has no node agent, so instances are simulated (chosen by --runtime auto)"


def main(options: argparse.Namespace) -> int:
    """Serve until a signal; exit codes as those of `tarmac server`."""
    if options.runtime == "auto":
        print(_WHY_SIMULATED, file=sys.stderr)
    places = [Place(city.lower(), city, options.sim_nodes) for city in options.cities]
    return server.main(options, partial(simulated, places, options.node_monitor_grace_period))


@asynccontextmanager
async def simulated(places: Sequence[Place], grace: float, running: Running) -> AsyncGenerator[None]:
    """Cities full of simulated nodes, beside a control plane. They are registered when the block begins."""
    client = Client(local_transport(running.server, running.store, NODES))
    for place in places:
        await client.resource(LOCATIONS).apply(location(place), manager=_FIELD_MANAGER)
    fleet = Fleet(client, places, heartbeat=Heartbeat.for_fleet(sum(place.nodes for place in places), grace))
    async with ended(asyncio.create_task(fleet.run())):
        await fleet.registered()
        running.metering.source = SimulatedMetrics(fleet, client.clock)
        yield
