"""`tarmac up`: server, controllers, and the nodes of every city, real or simulated, on one host.

Real cities are separate network hosts, each with a containerd and an agent process (`cities`). Simulated nodes run in
this process and need no privileges. Either way Locations and Nodes are ordinary objects, and workloads outlive the
process: the next start adopts them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.apps import server
from tarmac.apps.cities.runtimechoice import Impossible, choose
from tarmac.apps.control_plane import STARTING, Running, local_transport
from tarmac.apps.layout import Layout, make_layout
from tarmac.apps.lock import held
from tarmac.apps.logfile import LogFile
from tarmac.apps.registry.registryserver import Registry, find_registry, with_registry
from tarmac.apps.stockcontrollers.supervisor import (
    StockControllersProgram,
    find_stock_controllers,
    with_stock_controllers,
)
from tarmac.apps.welcome import Welcome, kubeconfig_of
from tarmac.base.clock import SystemClock
from tarmac.base.gates import CLASS_RESOURCES, WAY_IN, BadGate, FeatureGates
from tarmac.base.stderr import print_error
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.targets.untyped import LOCATIONS
from tarmac.runtimes.parts import NodeParts, PartMissing
from tarmac.server.security.authorization.policy import SIMULATED_NODES
from tarmac.server.security.users import User
from tarmac.sim.nodes.configuration import BadNodeConfig, model_of, read_config
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.settings import HeartbeatSettings, SimLocation
from tarmac.sim.sessions.api import SimulatedNodeApi
from tarmac.sim.sessions.simulatedconnections import connections
from tarmac.sim.simulatedload import SimulatedMetrics

if TYPE_CHECKING:  # simulated cities load none of it
    from tarmac.apps.cities.surroundings import Surroundings
    from tarmac.datapath.hosts import HostUnderlay

NODES = User(SIMULATED_NODES, groups=("system:authenticated",))
_FIELD_MANAGER = "tarmac-up"


class _BadFlag(ValueError):
    """A flag has an invalid value."""


def main(options: argparse.Namespace) -> int:
    """Serve until a signal; exit codes as of `tarmac server`, and 2 for an invalid node configuration."""
    try:
        _set_gates(options)
        options.sim_node_model = _model(options.sim_node_config)
        choice = choose(options.runtime)
        if options.outside is not None and choice.parts is None:
            raise _BadFlag(f"--outside: simulated nodes have no packets ({choice.why}); run real nodes as root")
        print(f"runtime {choice.runtime}: {choice.why}", file=sys.stderr)
        layout = make_layout(options)
        lines = None if options.verbose else LogFile(layout.log)
        welcome = Welcome(layout, kubeconfig_of(options), options.cities, None if lines is None else layout.log)
        with held(layout.lock):
            layout.removing.unlink(missing_ok=True)  # of a `tarmac down` that was killed
            code = server.main(options, partial(_surround, options, choice.parts, welcome), lines, welcome.ready)
            # Before the lock is released: `tarmac down` deletes the file next.
            farewell = _farewell(layout, real=choice.parts is not None)
        if code == 0:
            print(farewell, file=sys.stderr)
        return code
    except _BadFlag as error:
        print_error(error)
        return 2
    except BadGate as error:
        print_error(f"--feature-gates: {error}")
        return 2
    except BadNodeConfig as error:
        print_error(f"--sim-node-config: {error}")
        return 2
    except (Impossible, PartMissing, OSError) as error:
        print_error(error)
        return 1


def _set_gates(options: argparse.Namespace) -> None:
    """Enable classes in all parts, and with an outside its way in. Gates are validated once; each part gets its own."""
    usual = {CLASS_RESOURCES: True, WAY_IN: options.outside is not None}
    gates = FeatureGates(("agent", "server", "controllers"), options.feature_gates, usual=usual)
    options.feature_gates = gates.settings_of("server", "controllers")
    stated = ",".join(f"{name}={str(value).lower()}" for name, value in gates.settings_of("agent").items())
    options.agent_arg = [f"--feature-gates={stated}", *options.agent_arg]


def _model(path: Path | None) -> NodeModel | None:
    """Return the model of simulated nodes. Raises BadNodeConfig."""
    if path is None:
        return None
    try:
        return model_of(read_config(path))
    except OSError as error:
        raise BadNodeConfig(f"{path}: {error.strerror}") from error
    except BadNodeConfig as error:
        raise BadNodeConfig(f"{path}: {error}") from error


def _surround(
    options: argparse.Namespace, parts: NodeParts | None, welcome: Welcome, layout: Layout
) -> server.ServerExtras:
    surroundings = _with_controllers(options, parts, layout)
    return replace(surroundings, beside=partial(_welcomed, welcome, surroundings.beside))


def _with_controllers(options: argparse.Namespace, parts: NodeParts | None, layout: Layout) -> server.ServerExtras:
    if not options.with_kubernetes_controllers:
        return _with_registry(options, parts, layout)
    controllers = StockControllersProgram(layout, find_stock_controllers())  # before anything is created
    surroundings = _with_registry(options, parts, layout)
    return replace(surroundings, beside=partial(with_stock_controllers, controllers, surroundings.beside))


def _with_registry(options: argparse.Namespace, parts: NodeParts | None, layout: Layout) -> server.ServerExtras:
    if options.registry is None:
        return _cities(options, parts, layout)
    program = find_registry()  # before anything is created
    surroundings = _cities(options, parts, layout)
    registry = Registry(layout, options.registry, options.registry_quota, program)
    if parts is not None:
        registry = _known_to(options.cities, registry)
    reached = surroundings.hosts

    def url(running: Running) -> str:
        return f"https://{reached[0]}:{running.listener.port}" if reached else running.url

    return replace(surroundings, beside=partial(with_registry, registry, url, surroundings.beside))


def _known_to(codes: Sequence[str], registry: Registry) -> Registry:
    """Return the registry for real cities: configured in their containerds, and confined like these."""
    from tarmac.apps.cities.cgroups import Confinement
    from tarmac.apps.cities.layout import CERTS, own_cgroup
    from tarmac.apps.cities.removing import underlay_of

    data_dir = registry.layout.data_dir
    certs = tuple(data_dir / "cities" / code.lower() / CERTS for code in codes)
    return replace(registry, certs=certs, wrapper=Confinement().registry(own_cgroup(underlay_of(data_dir))))


def _cities(options: argparse.Namespace, parts: NodeParts | None, layout: Layout) -> server.ServerExtras:
    if parts is not None:
        return _real(options, parts, layout)
    places = [SimLocation(city.lower(), city, options.sim_nodes) for city in options.cities]
    recordings = layout.data_dir / "recordings"
    beside = partial(simulated, places, options.node_monitor_grace_period, recordings, model=options.sim_node_model)
    return server.ServerExtras(beside)


def _left_out(codes: Sequence[str], what: str) -> str:
    named = ", ".join(sorted(codes))
    return f"found {named} of an earlier start, not named in --cities: {what}; name them again and they are back"


def _farewell(layout: Layout, *, real: bool) -> str:
    if layout.removing.exists():
        return "stopped by tarmac down, which deletes everything"
    kept = "stopped; the instances keep running" if real else "stopped; the data is kept"
    place = f"--data-dir {layout.data_dir}"
    return f"{kept}. `tarmac up {place}` resumes, `tarmac down {place}` stops and deletes everything"


@asynccontextmanager
async def _welcomed(welcome: Welcome, beside: server.Beside, running: Running) -> AsyncGenerator[None]:
    """Prepare the words around the ready line, once everything runs."""
    async with beside(running):
        await welcome.prepare(SystemClock())
        yield


def _real(options: argparse.Namespace, parts: NodeParts, layout: Layout) -> server.ServerExtras:
    """Create hosts for the cities, before the server can listen on the bridge between them."""
    from tarmac.apps.cities.formercities import leave
    from tarmac.apps.cities.layout import city_of
    from tarmac.apps.cities.realcities import real
    from tarmac.datapath import hosts

    codes = options.cities
    underlay = hosts.plan(layout.data_dir, [code.lower() for code in codes], hosts.free_subnet(layout.data_dir))
    around = _outside(options, underlay)  # before anything is created
    if left := asyncio.run(leave(layout.data_dir, codes, parts)):
        print(_left_out(left, "its instances were stopped, its data stays"), file=sys.stderr)
    hosts.build(underlay)
    cities = [city_of(code, underlay, layout.data_dir) for code in codes]
    gateways = around is not None
    beside = partial(real, cities, parts, layout, underlay.gateways[0], options.agent_arg, gateways=gateways)
    if around is None:  # removes those of an earlier start
        hosts.remove_nearby(underlay)
        hosts.remove_outside(underlay)
    else:
        around.build()
        beside = partial(around.beside, beside)
    return server.ServerExtras(beside, underlay.gateways)


def _outside(options: argparse.Namespace, underlay: HostUnderlay) -> Surroundings | None:
    """Return the outside of the cities, if there is one. Raises _BadFlag."""
    from tarmac.apps.cities.surroundings import Surroundings
    from tarmac.datapath import hosts

    if options.outside is None:
        return None
    try:
        segment = hosts.read_segment(options.outside)
        names = [code.lower() for code in options.cities] if options.feature_gates[WAY_IN] else []
        return Surroundings(underlay, segment, hosts.neighborhoods(underlay, segment, names))
    except hosts.BadSegment as error:
        raise _BadFlag(f"--outside: {error}") from error


@asynccontextmanager
async def simulated(
    places: Sequence[SimLocation],
    grace: float,
    recordings: Path,
    running: Running,
    *,
    model: NodeModel | None = None,
) -> AsyncGenerator[None]:
    """Run simulated nodes in cities, beside a control plane. They are registered when the block starts.

    `recordings` is the folder for console sessions of their machines.
    """
    models = dict.fromkeys((place.name for place in places), model) if model else {}
    async with simulated_fleet(places, grace, recordings, running, models):
        yield


@asynccontextmanager
async def simulated_fleet(
    places: Sequence[SimLocation],
    grace: float,
    recordings: Path,
    running: Running,
    models: Mapping[str, NodeModel],
) -> AsyncGenerator[tuple[SimulatedNodes, SimulatedMetrics]]:
    """Run simulated nodes as `simulated` does; yield them and the load that they report. `models` are by location."""
    locations = Client(local_transport(running.server, STARTING)).resource(LOCATIONS)
    names = {place.name for place in places}
    found = [each for each in (await locations.list()).items if "simulated" in each["spec"].get("provider", {})]
    if left := [each["metadata"]["name"].upper() for each in found if each["metadata"]["name"] not in names]:
        print(_left_out(left, "their simulated nodes are not started"), file=sys.stderr)
    for place in places:
        await locations.apply(location(place), manager=_FIELD_MANAGER)
    clock = SystemClock()
    client = Client(local_transport(running.server, NODES, bounded=clock), clock)
    beat = HeartbeatSettings.for_fleet(sum(place.nodes for place in places), grace)
    fleet = SimulatedNodes(client, places, models=models, heartbeat=beat)
    async with background(fleet.run(), "simulated nodes"):
        await fleet.registered()
        metrics = SimulatedMetrics(fleet, client.clock)
        async with connections(fleet, SimulatedNodeApi(fleet, client, recordings)) as reached:
            with running.shared.metering.measured_by(metrics), running.shared.local_nodes.served(reached.find):
                yield fleet, metrics
