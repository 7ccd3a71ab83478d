"""Plays one seed: random users and faults for a while, after which the world must converge.

There are two replicas of the controllers, a few cities of nodes, a random user, and every kind of fault. Then the
faults stop and mistakes are corrected. Within `patience` the wanted state must be reached; then nothing may change any
more, and the API must agree with the nodes. A trial is reproducible to the byte from its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.tasks import background
from tarmac.client.targets.untyped import LOCATIONS
from tarmac.sim.bugs import LogTap
from tarmac.sim.checker.convergence import lies, orphans, unmet
from tarmac.sim.checker.egressrules import lies_outside, unmet_outside
from tarmac.sim.checker.replay import LEASES, Checker, RuleViolation
from tarmac.sim.checker.safety import safety
from tarmac.sim.egressusers import Partner
from tarmac.sim.faults.director import Director
from tarmac.sim.faults.draws import FaultInjector, FaultRates
from tarmac.sim.history import Moment
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.draws import drawn_model
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import Behaviour, SimLocation
from tarmac.sim.seeds import stream
from tarmac.sim.simulatedload import SimulatedMetrics
from tarmac.sim.users import Somebody

PLACES = (SimLocation("dfw", "DFW", 2), SimLocation("sea", "SEA", 2), SimLocation("lhr", "LHR", 2))
GATEWAYS = ("dfw-0", "sea-0", "lhr-0")
OUTSIDE_INTERVAL = 12  # seeds
UNLUCKY = Behaviour(fails=0.05, crash_loops=0.03, out_of_memory=0.02)
_START, _POLL = 60.0, 10.0
_CALM, _REST = 340.0, 90.0  # until the autoscaler's windows are empty; the time without changes after that
_BACKGROUND_WRITES = (LEASES, "core/events")  # these change in a calm world too

OnEvent = Callable[[float, str], None]


@dataclass(frozen=True)
class TrialSettings:
    """Duration of a trial in virtual seconds, and the fault rates of its network."""

    turmoil: float = 400.0
    patience: float = 3600.0
    odds: FaultRates = FaultRates()  # noqa: RUF009


@dataclass(frozen=True)
class TrialResult:
    """The result of a seed."""

    seed: int
    violations: list[RuleViolation]
    hits: Counter[str]
    happened: Counter[str]
    changes: int
    seconds: float
    digest: str


def _ignore(_time: float, _what: str) -> None:
    """Ignore the event."""


def trial(seed: int, settings: TrialSettings | None = None, on_event: OnEvent = _ignore) -> TrialResult:
    """Play a seed to its end."""
    tap = LogTap()
    tap.listen()
    made = settings or TrialSettings()

    async def main(loop: VirtualLoop) -> TrialResult:
        luck = FaultInjector(stream(seed, "faults"), made.odds)
        async with world(loop, seed, luck) as planet:
            return await _Trial(planet, made, lambda what: on_event(loop.time(), what), tap).play()

    return run(main)


class _Trial:
    def __init__(self, planet: SimWorld, settings: TrialSettings, on_event: Callable[[str], None], tap: LogTap) -> None:
        self._world = planet
        self._settings = settings
        self._tap = tap
        self._checker = Checker(safety())
        planet.store.observers.append(self._checker)
        sizes = stream(planet.seed, "sizes")
        models = {place.name: drawn_model(sizes) for place in PLACES}
        nodes = planet.client("nodes", planet.link(NODES))
        # The checker does not read events, and writing them takes as long as the rest of a story.
        self._fleet = SimulatedNodes(nodes, PLACES, models=models, behaviour=UNLUCKY, events=False)
        metrics = SimulatedMetrics(self._fleet, planet.clock)
        self._load = metrics.load
        self._replicas = [planet.replica(name, metrics) for name in ("controllers-a", "controllers-b")]
        dice, cities = stream(planet.seed, "people"), [place.city for place in PLACES]
        self._user = Somebody(planet.reliable(), planet.clock, dice, cities, self._load, on_event=on_event)
        # Only in every twelfth story: leases are renewed several times a second, which takes as long as everything
        # else.
        self._partner: Partner | None = None
        if planet.seed % OUTSIDE_INTERVAL == 0:
            chance, apps = stream(planet.seed, "partner"), self._user.wishes
            self._partner = Partner(planet.reliable(), planet.clock, chance, lambda: list(apps), on_event=on_event)
        self._fate = Director(
            planet.luck, planet.clock, planet.store, self._replicas, self._fleet, planet.clocks, on_event=on_event
        )

    async def play(self) -> TrialResult:
        clock, settings = self._world.clock, self._settings
        for place in PLACES:
            await self._world.reliable().resource(LOCATIONS).apply(location(place), manager="trial")
        for replica in self._replicas:
            replica.start()
        async with background(self._fleet.run(), "simulated nodes"):
            await clock.sleep(_START)
            async with AsyncExitStack() as stack:
                if self._partner is not None:
                    await self._partner.begin(GATEWAYS)
                    await stack.enter_async_context(background(self._partner.run(), "partner"))
                await stack.enter_async_context(background(self._user.run(), "people"))
                await stack.enter_async_context(background(self._fate.run(), "fate"))
                await clock.sleep(settings.turmoil)
            self._fate.end()
            await self._user.settle()
            if self._partner is not None:
                await self._partner.settle()
            await self._converge()
        for replica in self._replicas:
            replica.crash()
        return self._outcome()

    async def _converge(self) -> None:
        """Wait until the wanted state is reached, then check that it is stable."""
        mirror, clock = self._checker.mirror, self._world.clock
        deadline = clock.monotonic() + self._settings.patience
        while missing := self._unmet():
            if clock.monotonic() > deadline:
                self._wrong("converges", missing)
                return
            await clock.sleep(_POLL)
        await clock.sleep(_CALM)
        self._world.store.observers.append(self._unrest)
        await clock.sleep(_REST)
        self._wrong("stays", self._unmet())
        self._wrong("status-is-truth", [*lies(mirror, self._fleet), *lies_outside(mirror, self._fleet)])
        self._wrong("no-orphans", orphans(mirror))

    def _unmet(self) -> list[str]:
        mirror = self._checker.mirror
        return [*unmet(mirror, self._user.wishes.values(), self._load), *unmet_outside(mirror)]

    def _unrest(self, moment: Moment) -> None:
        event = moment.event
        if event.bucket not in _BACKGROUND_WRITES:
            self._wrong("rests", [f"{event.type} {event.bucket} {event.entry.name} though nothing is to be done"])

    def _wrong(self, rule: str, messages: Iterable[str]) -> None:
        now = self._world.clock.monotonic()
        self._checker.violations += [RuleViolation(now, rule, message) for message in messages]

    def _outcome(self) -> TrialResult:
        self._wrong("no-bugs", self._tap.bugs)
        self._wrong("accepts", self._user.refused)
        self._wrong("accepts", self._partner.refused if self._partner is not None else ())
        self._wrong("carried-once", self._fleet.relays.leases.broken)
        return TrialResult(
            self._world.seed,
            self._checker.violations,
            self._world.luck.hits,
            self._fleet.happened,
            self._checker.changes,
            self._world.clock.monotonic(),
            self._world.store.digest,
        )
