"""`tarmac up --outside` on real nodes: clients near each city reach the example at one address, each in its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.apps.cities.outsiderouters import routers_of
from tarmac.apps.processes import find_processes
from tests.egress.planet import CITIES, EXAMPLES, Outside
from tests.egress.test_removal import assert_down_leaves_nothing
from tests.node.planet import Planet, down, eventually
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

ADDRESS = "203.0.113.1"
"""The address that the example asks for."""


class Near:
    """The planet, seen by the clients near its cities."""

    def __init__(self, outside: Outside) -> None:
        self.outside, self.planet = outside, outside.planet

    def client(self, city: str) -> Path:
        """Return the namespace of the client near a city."""
        return self.outside.underlay.run / f"near-{city.lower()}"

    def said(self, city: str, address: str = ADDRESS) -> str:
        """Return what the client near a city gets at an address; empty if there is no answer."""
        command = ["nsenter", f"--net={self.client(city)}", "wget", "-qO-", "-T", "10", "-t", "1", f"http://{address}/"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()

    def until_answered(self, city: str, by: str) -> None:
        """Wait until the client near a city is answered from a city."""
        eventually(lambda: self.said(city).startswith(f"hello from {by}, "), 60, f"near {city}, an answer from {by}")


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Near]:
    """Run three cities with an outside, and the example."""
    directory = tmp_path_factory.mktemp("near") / "data"
    flags = ("--runtime", "containerd", "--cities", ",".join(CITIES), "--outside", "--no-kubeconfig")
    try:
        with TarmacProcess(directory, *flags, command="up") as process:
            made = Near(Outside(Planet(process, directory.parent)))
            try:
                made.planet.kubectl("apply", "-f", str(EXAMPLES / "way-in.yaml"))
                made.planet.wait("workload/hello", "condition=Available", 120)
                made.planet.wait("workload/hello", "condition=AnycastReady", 60)
                yield made
            finally:
                made.outside.watch.close()
    finally:
        done = down(directory)
        assert done.returncode == 0, f"tarmac down left something: {done.stderr}"


def test_clients_near_each_city_reach_their_own_and_it_sees_their_address(near: Near) -> None:
    for number, city in enumerate(CITIES):
        near.until_answered(city, city)
        assert near.said(city) == f"hello from {city}, you are 198.51.100.{4 * number + 2}"
    (six,) = (each for each in near.planet.get("workload", "hello")["status"]["anycastAddresses"] if ":" in each)
    for number, city in enumerate(CITIES):
        assert near.said(city, f"[{six}]").endswith(
            f"from {city}, you are 2001:db8:2:{number or ''}::2".replace(":::", "::")
        )
    workload = near.planet.get("workload", "hello")["status"]
    assert {(each["city"], each["announced"]) for each in workload["anycast"]} == {(city, True) for city in CITIES}


def test_clients_behind_routers_reach_the_service_on_the_segment(near: Near) -> None:
    near.planet.wait("service/hello", "condition=LoadBalancerReady", 60)
    (shown,) = near.planet.get("service", "hello")["status"]["loadBalancer"]["ingress"]
    for number, city in enumerate(CITIES):
        assert near.said(city, shown["ip"]).endswith(f", you are 198.51.100.{4 * number + 2}"), city


def test_clients_of_a_city_without_an_instance_are_answered_from_the_next_one(near: Near) -> None:
    planet = near.planet
    planet.kubectl("cordon", "sea-0")
    try:
        selector = "compute.datumapis.com/city-code=SEA"
        (instance,) = planet.kubectl("get", "instances", "-l", selector, "-o", "name").split()
        planet.kubectl("delete", instance)
        near.until_answered("SEA", "DFW")
        planet.wait("workload/hello", "condition=AnycastReady", 60)
        for city in ("DFW", "LHR"):
            assert near.said(city).startswith(f"hello from {city}, ")
    finally:
        planet.kubectl("uncordon", "sea-0")
    planet.wait("workload/hello", "condition=Available", 120)
    near.until_answered("SEA", "SEA")


def test_a_router_that_is_killed_comes_back_and_a_new_start_of_up_keeps_the_address(near: Near) -> None:
    run = near.outside.underlay.run
    before = routers_of(run)
    assert len(before) == len(CITIES)
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: len(routers_of(run)) == len(CITIES) and before[0] not in routers_of(run), 30, "another router")
    near.planet.process.kill()
    eventually(lambda: not routers_of(run), 30, "the end of routers with the process that runs them")
    near.planet.process.start()
    for city in CITIES:
        near.until_answered(city, city)
    assert near.planet.get("workload", "hello")["status"]["anycastAddresses"][0] == ADDRESS


def test_simulated_nodes_are_refused_an_outside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tarmac.apps.main", "up", "--runtime", "sim", "--outside"]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--no-kubeconfig"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "--outside: simulated nodes have no packets (set by --runtime); run real nodes as root" in done.stderr


@pytest.mark.last
def test_after_everything_was_killed_down_leaves_neither_routers_nor_clients(near: Near) -> None:
    near.planet.process.kill()
    near.planet.process.start()
    run = near.outside.underlay.run
    assert routers_of(run)
    assert_down_leaves_nothing(near.outside, at_least=4 * len(CITIES) + 1)
    assert not find_processes(lambda words: any(each.startswith(f"{run}/") for each in words))
