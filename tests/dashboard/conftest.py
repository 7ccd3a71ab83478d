"""One planet for the tests that only look at it, with something of everything: it takes a while to come up."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.dashboard.views import fill_with_everything, revise
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package")
def full_planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        fill_with_everything(running)
        revise(running)
        yield running
    finally:
        running.stop()
