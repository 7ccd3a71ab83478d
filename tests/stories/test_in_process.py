"""Every story on a planet in one process, in virtual time."""

from __future__ import annotations

import pytest

from tarmac.apps.up import NODES
from tarmac.apps.world import world as virtual_world
from tarmac.base.randomness import Randomness
from tarmac.sim.faults.luck import Luck
from tarmac.sim.loop import VirtualLoop, run
from tests.stories.all import STORIES
from tests.stories.telling import play
from tests.stories.world import UNHURRIED, World


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        luck = Luck(Randomness(1))
        luck.stop()
        async with virtual_world(loop, 1, luck) as planet:
            controllers = planet.replica("controllers")
            controllers.start()
            nodes = planet.client("nodes", planet.link(NODES))
            await play(STORIES[name], World(planet.reliable(), nodes, "story", UNHURRIED))
            controllers.crash()

    run(main)
