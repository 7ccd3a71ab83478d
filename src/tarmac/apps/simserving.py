"""`tarmac sim SCENARIO --serve`: plays a scenario in real time on a running server, to be looked at.

The server is the one of `tarmac up --runtime sim`. It serves until Ctrl-C, also when an expectation of the scenario
does not hold: the planet is then as it is at that step.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tarmac.api.catalog import build_catalog
from tarmac.apps import server
from tarmac.apps.control_plane import STARTING, Running, local_transport
from tarmac.apps.layout import Layout
from tarmac.apps.up import NODES, simulated_fleet
from tarmac.base.clock import SystemClock
from tarmac.base.stderr import print_error
from tarmac.base.tasks import background
from tarmac.cli.serverflags import add_up_flags
from tarmac.client.client import Client
from tarmac.sim.nodes.settings import SimLocation
from tarmac.sim.nodes.simulatedingress import SimIngress
from tarmac.sim.scenario.player import Player, ScenarioStage, Unmet, label_gateways
from tarmac.sim.scenario.script import Scenario, ScenarioError

_Beside = Callable[[Path, Running], AbstractAsyncContextManager[None]]
"""Runs beside the server, with a folder for recordings."""

_GRACE = 8.0  # seconds; a city that is cut off is lost soon enough to be looked at


def serve(scenario: Scenario, options: argparse.Namespace) -> int:
    """Serve until a signal; return the exit code of the server. Raises ScenarioError, OSError."""
    unplayable = [step.action for step in scenario.steps if step.action in ("crash", "start", "jump")]
    if unplayable:
        raise ScenarioError(f"--serve: step {unplayable[0]}: needs virtual time; remove it, or play without --serve")
    beside = partial(_playing, scenario, options.scenario.parent)
    if options.data_dir is not None:
        return _serve(scenario, options, options.data_dir, beside)
    with TemporaryDirectory(prefix="tarmac-sim-") as folder:
        return _serve(scenario, options, Path(folder), beside)


def _serve(scenario: Scenario, options: argparse.Namespace, folder: Path, beside: _Beside) -> int:
    host, port = options.listen
    words = ["--data-dir", str(folder), "--listen", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    words += [f"--node-monitor-grace-period={_GRACE:g}s", *(["--verbose"] if options.verbose else [])]
    parser = argparse.ArgumentParser()
    add_up_flags(parser)
    extras = partial(_extras, scenario, beside)
    return server.main(parser.parse_args(words), extras)


def _extras(scenario: Scenario, beside: _Beside, layout: Layout) -> server.ServerExtras:
    where = f"--kubeconfig {layout.kubeconfig}"
    _print_line(f"{scenario.name}: look at it with `tarmac dashboard {where}` or `kubectl get workloads -A {where}`")
    return server.ServerExtras(partial(beside, layout.data_dir / "recordings"))


@asynccontextmanager
async def _playing(scenario: Scenario, folder: Path, recordings: Path, running: Running) -> AsyncGenerator[None]:
    """Run the nodes of the scenario, and its steps while the server serves."""
    places = [SimLocation(city.lower(), city, nodes) for city, nodes in scenario.cities.items()]
    async with simulated_fleet(places, _GRACE, recordings, running, scenario.models()) as (fleet, metrics):
        clock = SystemClock()
        client = Client(local_transport(running.server, STARTING), clock)
        await label_gateways(client, scenario, fleet)
        async with AsyncExitStack() as stack:
            ingress = SimIngress(Client(local_transport(running.server, NODES), clock), fleet)
            if scenario.gateways:
                await stack.enter_async_context(background(ingress.run(), "public addresses"))
            shown = ingress if scenario.gateways else None
            stage = ScenarioStage(client, clock, build_catalog(), fleet, metrics, {}, {}, shown)
            playing = background(_play(scenario, Player(stage, folder, _print_line)), "scenario")
            await stack.enter_async_context(playing)
            yield


async def _play(scenario: Scenario, player: Player) -> None:
    """Execute the steps; print the first that fails, and leave the planet as it is."""
    try:
        for step in scenario.steps:
            await player.do(step)
    except (Unmet, ScenarioError) as error:
        print_error(f"{scenario.name}: {error}; the planet stays as it is")
        return
    _print_line("all steps are done; Ctrl-C ends")


def _print_line(line: str) -> None:
    print(line, file=sys.stderr)
