"""One planet for all tests here, and a capture of all packets that its gateways send outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.egress.encrypting import links, sockets, wireguard_processes
from tests.egress.planet import CITIES, Outside, sharing
from tests.node.planet import Planet, down
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    directory = tmp_path_factory.mktemp("outside") / "data"
    flags = ("--runtime", "containerd", "--cities", ",".join(CITIES), "--outside", "--feature-gates", "WayIn=false")
    made: Outside | None = None
    try:
        with TarmacProcess(directory, *flags, command="up") as process:
            made = Outside(Planet(process, directory.parent))
            try:
                yield made
            finally:
                made.watch.close()
    finally:
        if made is not None:
            for agent in [agent for node in made.cities for agent in made.agents(node)]:
                os.kill(agent, signal.SIGKILL)
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"
    assert made is not None
    made.watch.judge()
    assert not set(links(made).values()) & set(wireguard_processes().values())
    assert not [each for each in sockets(made).values() if each.exists()]
    assert sharing(made.underlay.run) == []
