"""`tarmac up` reports once if virtual machines have hardware support, as soon as a node has probed it."""

from __future__ import annotations

import pytest

from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.apps.cities.realcities import print_accelerator
from tarmac.base.tasks import background
from tarmac.client.targets.untyped import NODES
from tests.controllers.planet import PLACES, Planet, play

NODE = f"{PLACES[0].name}-0"


@pytest.mark.parametrize(("found", "said"), [("kvm", "with the processor's support"), ("tcg", "emulated, and slow")])
def test_machine_support_is_reported_once_a_node_has_probed_it(
    found: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(planet: Planet) -> None:
        async with background(print_accelerator(planet.user, NODE), "telling") as telling:
            await planet.wait(5)
            assert not telling.done()
            assert capsys.readouterr().err == ""
            await planet.user.resource(NODES).patch(NODE, {"metadata": {"labels": {LABEL_ACCELERATOR: found}}})
            await planet.wait(5)
            assert telling.done()
        assert capsys.readouterr().err.count(said) == 1

    play(story)


def test_machine_support_is_not_reported_without_a_node_that_offers_it(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(planet: Planet) -> None:
        for node in (NODE, "nobody"):
            await print_accelerator(planet.user, node)
        assert capsys.readouterr().err == ""

    play(story)
