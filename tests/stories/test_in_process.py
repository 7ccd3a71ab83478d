"""Every story on a planet in one process, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tarmac.apps.control_plane import CONTROLLING
from tarmac.apps.simworld import world as virtual_world
from tarmac.apps.up import NODES
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager, choose
from tarmac.controllers.metricsources import ExternalQuery, InstanceUsage, NoMetric
from tarmac.server.security.users import User
from tarmac.sim.bugs import LogTap
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tests.stories.all import OF_MACHINES_TOO, STORIES
from tests.stories.manifests import MACHINE, SANDBOX, Sort
from tests.stories.telling import play
from tests.stories.world import UNHURRIED, World


class _Prometheus:
    """Answers as a Prometheus that scrapes `requests_per_second` would."""

    def __init__(self) -> None:
        self.load: dict[str, float] = {}

    async def external(self, question: ExternalQuery) -> Sequence[int]:
        found = [
            value for city, value in self.load.items() if f'requests_per_second{{city="{city}"}}' == question.query
        ]
        if not found:
            raise NoMetric(f"{question.query} has no value")
        return [round(1000 * value) for value in found]

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        raise NoMetric("no story asks for it")

    async def close(self) -> None:
        pass


CLUSTER = User("system:somebody", groups=("system:masters", "system:authenticated"))
OF_THE_CLUSTER = ",".join(("*", *(f"-{name}" for name in choose("workloads"))))


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    tell(name)


@pytest.mark.parametrize("name", OF_MACHINES_TOO)
def test_story_of_machines(name: str) -> None:
    tell(name, sort=MACHINE)


def tell(name: str, *, beside: bool = False, sort: Sort = SANDBOX) -> None:
    """Run a story; `beside` other controllers, which manage everything but Workloads."""
    tap, prometheus = LogTap(), _Prometheus()
    tap.listen()

    async def main(loop: VirtualLoop) -> None:
        luck = FaultInjector(Randomness(1))
        luck.stop()
        async with virtual_world(loop, 1, luck) as planet:
            controllers = planet.client("controllers", planet.link(CONTROLLING))
            others = planet.client("others", planet.link(CLUSTER))
            manager = ControllerManager(
                controllers, root_ca=lambda: "simulated", metrics_source=prometheus, settings=Settings(way_in=True)
            )
            cluster = ControllerManager(others, OF_THE_CLUSTER if beside else "", root_ca=lambda: "simulated")
            if beside:
                settings = Settings(scheduler_names=("tarmac",), way_in=True)
                manager = ControllerManager(
                    controllers, "workloads", settings=settings, metrics_source=prometheus, networked=False
                )
            async with background(manager.run(), "controllers"), background(cluster.run(), "cluster"):
                nodes = planet.client("nodes", planet.link(NODES))
                scene = World(planet.reliable(), nodes, "story", UNHURRIED, prometheus.load, sort)
                await play(STORIES[name], scene)

    run(main)
    assert not tap.bugs
