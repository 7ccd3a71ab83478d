"""A city that the next `tarmac up` does not name is stopped; named again, it starts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.cities.agents import agents_of
from tarmac.apps.cities.layout import city_of
from tarmac.apps.cities.removing import underlay_of
from tarmac.runtimes import containerd
from tarmac.runtimes.parts import find_parts
from tests.node.planet import down, eventually
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]


def daemons(data_dir: Path) -> set[str]:
    """Return the cities with a running containerd."""
    underlay, parts = underlay_of(data_dir), find_parts()
    cities = [city_of(host.name.upper(), underlay, data_dir) for host in underlay.cities]
    return {city.code for city in cities if containerd.processes(city.containerd(parts))}


def test_a_city_that_is_not_named_again_is_ended_and_keeps_its_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    try:
        with TarmacProcess(data, "--runtime", "containerd", "--cities", "DFW,LHR", command="up") as both:
            both.kill()  # the agents go on, as after any crash
        assert daemons(data) == {"DFW", "LHR"}
        (data / "cities" / "lhr" / "agent" / "kept").write_text("what a disk holds")
        with TarmacProcess(data, "--runtime", "containerd", "--cities", "DFW", command="up") as one:
            assert "found LHR of an earlier start, not named in --cities: its instances" in one.log.read_text()
            assert daemons(data) == {"DFW"}
            eventually(lambda: len(agents_of(data)) == 1, what="one agent")
            assert (data / "cities" / "lhr" / "agent" / "kept").exists()
            one.stop(30)
            assert "stopped; the instances keep running" in one.log.read_text()
        assert daemons(data) == {"DFW"}
    finally:
        done = down(data)
    assert done.returncode == 0, done.stderr
