"""From nothing but the package, on fresh roots of Debian 12 and 13, each on a network of its own: one machine to three.

The short test makes one machine a server with a node within its time. The long ones (`make soak`) are a second machine
that joins it, and three sites: two servers on an etcd of three members, a node in each of three cities and a workload
in all; each machine in turn is killed and leaves, while the workload of the rest stays reachable.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.machines.boxes import until
from tests.machines.packaged import package
from tests.machines.planet import KUBECONFIG, ThreeSites, instance, location
from tests.machines.sites import SiteBox, sites
from tests.soak import SOAK
from tools.debian_roots import ensure

pytestmark = [pytest.mark.root, pytest.mark.serial, pytest.mark.timeout(1800 if SOAK else 300)]
# The limits are for an idle machine; an overloaded one gets proportionally more.
SLOW = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
READY_SECONDS, JOINED_SECONDS, RUNNING_SECONDS = (SLOW * bar for bar in (60.0, 20.0, 2.0))


def seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def become_a_cluster(machine: SiteBox, deb: Path) -> None:
    machine.install(deb)
    init = ("init", "--location", "dfw", "--listen", f"{machine.address}:6443", "--foreground")
    machine.start(*init).until_said("join another machine", READY_SECONDS)


def test_a_fresh_debian_is_a_cluster_within_a_minute(tmp_path: Path) -> None:
    """The newer Debian, which no other test uses."""
    deb = package("13")
    with sites(tmp_path, dallas=ensure("13")) as (dallas,):
        ready = seconds(lambda: become_a_cluster(dallas, deb))
        first_instance(dallas, "DFW")
        print(f"Debian 13: package to Ready {ready:.1f} s")
        assert ready <= READY_SECONDS
        # It stays a server when it is no longer a node.
        assert dallas.run("leave").stdout == "left\n"
        assert dallas.kubectl("get", "nodes") == "", "the server answers, and has no node"
        assert [line for line in dallas.processes() if "containerd" in line or " agent" in line] == []


@pytest.mark.soak(minutes=6, only=True)
@pytest.mark.parametrize(("first", "second"), [("12", "13"), ("13", "12")])
def test_another_machine_joins_within_seconds(tmp_path: Path, first: str, second: str) -> None:
    deb = package(first)
    with sites(tmp_path, dallas=ensure(first), london=ensure(second)) as (dallas, london):
        ready = seconds(lambda: become_a_cluster(dallas, deb))
        london.install(package(second))
        dallas.kubectl("create", "-f", "-", stdin=json.dumps(location("lhr")))
        token = dallas.run("token", "create", "--location", "lhr", *KUBECONFIG).stdout.strip()
        join = ("join", dallas.address, "--token", token, "--foreground")
        joined = seconds(lambda: london.start(*join).until_said("joined as london", JOINED_SECONDS))
        running = seconds(lambda: first_instance(dallas, "LHR"))
        print(f"Debian {first}: package to Ready {ready:.1f} s; Debian {second}: join to Ready {joined:.1f} s, "
              f"its first instance Running {running:.1f} s later")  # fmt: skip
        assert ready <= READY_SECONDS
        assert joined + running <= JOINED_SECONDS + RUNNING_SECONDS


def first_instance(server: SiteBox, city: str) -> None:
    server.kubectl("create", "-f", "-", stdin=json.dumps(instance("first", [city])))
    until(lambda: "Running" in server.kubectl("get", "instances"), JOINED_SECONDS)


@pytest.mark.soak(minutes=6, only=True)
def test_three_sites_outlive_each_of_their_machines(tmp_path: Path) -> None:
    releases = ("12", "13", "12")
    packages = [package(each) for each in releases]
    roots = dict(zip(("dallas", "london", "seattle"), map(ensure, releases), strict=True))
    with sites(tmp_path, **roots) as machines, ThreadPoolExecutor(3) as hands:
        list(hands.map(lambda machine, deb: machine.install(deb), machines, packages))
        planet = ThreeSites(machines)
        planet.begin()
        for machine in machines:
            planet.lose(machine)
            planet.bring_back(machine)
            planet.leave(machine)
            planet.join_again(machine)
        print("\n".join(planet.told))
