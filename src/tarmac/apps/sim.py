"""`tarmac sim`: plays a scenario, or the random story of a seed, and prints its events.

Exit code 0 if everything passed, 1 if something failed, 2 if the scenario cannot be played.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from multiprocessing import get_context
from pathlib import Path

from tarmac.api.catalog import build_catalog
from tarmac.apps.simserving import serve
from tarmac.apps.simtrial import TrialResult, trial
from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.garbage import collect_rarely
from tarmac.base.stderr import print_error
from tarmac.base.tasks import background
from tarmac.client.targets.untyped import LOCATIONS
from tarmac.sim.bugs import LogTap
from tarmac.sim.checker.replay import Checker, RuleViolation
from tarmac.sim.checker.safety import safety
from tarmac.sim.faults.draws import KINDS, FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import SimLocation
from tarmac.sim.nodes.simulatedingress import SimIngress
from tarmac.sim.scenario.player import Player, ScenarioStage, Unmet, label_gateways
from tarmac.sim.scenario.script import Scenario, ScenarioError, read
from tarmac.sim.scenario.timeline import Timeline, stamp
from tarmac.sim.seeds import stream
from tarmac.sim.simulatedload import SimulatedMetrics

_MIN_SEEDS = 50  # number of seeds that should meet every fault
_PROGRESS_INTERVAL = 500  # seeds between two progress lines
_SETTLE_SECONDS = 20.0  # seconds until a new planet is at rest


def main(options: argparse.Namespace) -> int:
    """Play the scenario or the seeds of the command line."""
    if options.seeds is not None:
        return play_seeds(options.seeds, options.jobs)
    if options.scenario is None and options.serve:
        print_error("--serve: a scenario is missing; name one, such as examples/scenarios/showcase.yaml")
        return 2
    if options.scenario is None:
        return play_seed(options.seed or 1, options.verbose)
    try:
        scenario = read(options.scenario)
        if options.serve:
            return serve(scenario, options)
        return play(scenario, options.scenario.parent, scenario.seed if options.seed is None else options.seed)
    except (ScenarioError, OSError) as error:
        print_error(error)
        return 2


def play_seed(seed: int, verbose: bool) -> int:
    """Play one random story."""
    outcome = trial(seed, on_event=lambda time, what: print(f"{stamp(time)}  {what}") if verbose else None)
    print(report(outcome))
    return bool(outcome.violations)


def play_seeds(seeds: Sequence[int], jobs: int) -> int:
    """Play many seeds in `jobs` processes. Print failures with their replay commands, and the number of hits per fault.

    A fault that never occurred was not tested, so it fails a run that is long enough to have met it.
    """
    hits, failed = Counter[str](), list[int]()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=collect_rarely) as pool:
        for count, outcome in enumerate(pool.map(trial, seeds, chunksize=2), 1):
            hits += outcome.hits
            if count % _PROGRESS_INTERVAL == 0 and count < len(seeds):
                print(f"{count} of {len(seeds)} seeds, {len(failed)} failed", flush=True)
            if outcome.violations:
                failed.append(outcome.seed)
                print(report(outcome), flush=True)
    missed = [kind for kind in KINDS if not hits[kind]] if len(seeds) >= _MIN_SEEDS else []
    print(f"{len(seeds)} seeds, {len(failed)} failed; hits: {', '.join(f'{kind} {hits[kind]}' for kind in KINDS)}")
    if missed:
        print(f"never hit: {', '.join(missed)}")
    return bool(failed or missed)


def report(outcome: TrialResult) -> str:
    """Return one line for a passed seed; the violations and the replay command for a failed one."""
    if not outcome.violations:
        return f"seed {outcome.seed}: fine ({outcome.changes} changes in {outcome.seconds:.0f} s)"
    wrong = "\n".join(f"  {violation}" for violation in outcome.violations)
    return f"seed {outcome.seed}: FAILED\n{wrong}\n  replay: {replay(outcome.seed)}"


def replay(seed: int) -> str:
    """Return the command that replays a seed verbosely."""
    return f"tarmac sim --seed {seed} --verbose"


def play(scenario: Scenario, folder: Path, seed: int) -> int:
    """Play a scenario and print its timeline."""
    tap = LogTap()
    tap.listen()

    async def main(loop: VirtualLoop) -> int:
        return await _play(loop, scenario, folder, seed)

    print(f"{scenario.name} (seed {seed})")
    code = run(main)
    for bug in tap.bugs:
        print(f"bug: {bug}")
    return code or bool(tap.bugs)


async def _play(loop: VirtualLoop, scenario: Scenario, folder: Path, seed: int) -> int:
    def print_line(what: str) -> None:
        print(f"{stamp(loop.time())}  {what}")

    luck, timeline = FaultInjector(stream(seed, "faults")), Timeline(print_line)
    if not scenario.faults:
        luck.stop()
    checker = Checker([*safety(), timeline])
    async with AsyncExitStack() as stack:
        planet = await stack.enter_async_context(world(loop, seed, luck))
        planet.store.observers.append(checker)
        fleet = await _populate(planet, scenario, stack)
        metrics = SimulatedMetrics(fleet, planet.clock)
        replicas = {name: planet.replica(name, metrics) for name in _processes(scenario)}
        for replica in replicas.values():
            replica.start()
            stack.callback(replica.crash)
        await planet.clock.sleep(_SETTLE_SECONDS)
        timeline.on = True
        user, catalog = planet.reliable(), build_catalog()
        ingress = SimIngress(planet.client("ingress", planet.link(NODES)), fleet) if scenario.gateways else None
        if ingress is not None:
            await stack.enter_async_context(background(ingress.run(), "public addresses"))
        stage = ScenarioStage(user, planet.clock, catalog, fleet, metrics, replicas, planet.clocks, ingress)
        player = Player(stage, folder, lambda what: print_line(f"--- {what}"))
        try:
            for step in scenario.steps:
                await player.do(step)
        except Unmet as error:
            print_line(f"NOT SO: {error}")
            return 1
        checker.violations += [RuleViolation(loop.time(), "carried-once", each) for each in fleet.relays.leases.broken]
        broken = ingress.broken if ingress is not None else []
        checker.violations += [RuleViolation(loop.time(), "announced-truthfully", each) for each in broken]
    for violation in checker.violations:
        print(f"broken: {violation}")
    return bool(checker.violations)


async def _populate(planet: SimWorld, scenario: Scenario, stack: AsyncExitStack) -> SimulatedNodes:
    places = [SimLocation(city.lower(), city, nodes) for city, nodes in scenario.cities.items()]
    for place in places:
        await planet.reliable().resource(LOCATIONS).apply(location(place), manager="scenario")
    fleet = SimulatedNodes(planet.client("nodes", planet.link(NODES)), places, models=scenario.models())
    await stack.enter_async_context(background(fleet.run(), "simulated nodes"))
    await fleet.registered()
    await label_gateways(planet.reliable(), scenario, fleet)
    return fleet


def _processes(scenario: Scenario) -> list[str]:
    return [f"controllers-{chr(ord('a') + number)}" for number in range(scenario.controllers)]
