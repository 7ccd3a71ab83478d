"""One planet for all tests here: three cities with a link to one outside segment, and public addresses on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tarmac.apps.cities.removing import underlay_of
from tarmac.apps.processes import find_processes
from tests.egress.planet import CITIES, Outside
from tests.node.planet import Planet, down
from tests.support.tarmac_process import TarmacProcess


@pytest.fixture(scope="package")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    directory = tmp_path_factory.mktemp("street") / "data"
    flags = ("--runtime", "containerd", "--cities", ",".join(CITIES), "--outside")
    try:
        with TarmacProcess(directory, *flags, command="up") as process:
            made = Outside(Planet(process, directory.parent))
            # The tests here have routers and pools of their own.
            made.planet.kubectl("delete", "bgppeers,addresspools", "--all")
            try:
                yield made
            finally:
                made.watch.close()
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"
        run = f"{underlay_of(directory).run}/"
        left = find_processes(lambda words: any(each.startswith(run) for each in words))
        assert not left, f"tarmac down left processes {left}"
