"""One planet for the tests that only look at it, with something of everything: it takes a while to come up."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.dashboard.views import fill_with_everything, revise
from tests.support.tarmac_process import TarmacProcess
from tools.dashboard import SOURCE, find_node, install


@pytest.fixture(scope="package")
def full_planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        fill_with_everything(running)
        revise(running)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def axe() -> str:
    """axe-core, to be evaluated in a page."""
    node = find_node()
    assert node is not None
    install(node)
    return (SOURCE / "node_modules" / "axe-core" / "axe.min.js").read_text()
