"""`tarmac up --outside` on real nodes: clients near each city reach the example at one address, each in its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tarmac.apps.cities.outsiderouters import routers_of
from tarmac.apps.processes import find_processes
from tests.egress.planet import CITIES, EXAMPLES, Outside
from tests.egress.test_removal import assert_down_leaves_nothing
from tests.egress.watching import INTERFACE
from tests.ingress.sampling import Calls, calling
from tests.node.planet import Planet, down, eventually
from tests.support.kubectl import kubectl_path
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
        """Return the answer to the client near a city at an address; empty without one."""
        command = ["nsenter", f"--net={self.client(city)}", "wget", "-qO-", "-T", "10", "-t", "1", f"http://{address}/"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()

    def until_answered(self, city: str, by: str, address: str = ADDRESS) -> None:
        """Wait until the client near a city is answered from a city."""
        answered = f"hello from {by}, "
        eventually(lambda: self.said(city, address).startswith(answered), 60, f"near {city}, an answer from {by}")


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
        near.until_answered(city, city, f"[{six}]")
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


@contextmanager
def conditions(near: Near, workload: str, folder: Path) -> Generator[Callable[[], list[str]]]:
    """Follow the condition AnycastReady during the block; yield a function that returns every state until now."""
    path = "{.status.conditions[?(@.type=='AnycastReady')].status}{'\\n'}"
    command = [kubectl_path(), "get", "workload", workload, "--watch", "-o", f"jsonpath={path}"]
    told = folder / "conditions"
    environment = {**os.environ, "KUBECONFIG": str(near.planet.process.kubeconfig)}
    with told.open("w") as output, subprocess.Popen(command, stdout=output, env=environment) as watching:
        try:
            eventually(lambda: bool(told.read_text()), 30, "the first state")
            yield lambda: told.read_text().split()
        finally:
            watching.kill()


@contextmanager
def cut_off(near: Near, node: str) -> Generator[None]:
    """Unplug a city from the segment and from the other cities during the block; its links notice nothing."""
    city, underlay = near.outside.cities[node].host, near.outside.underlay
    found = subprocess.run(
        ["nsenter", f"--net={city.namespace}", "ip", "-j", "link", "show", INTERFACE],
        capture_output=True, check=True, timeout=20,
    )  # fmt: skip
    port = json.loads(found.stdout)[0]["link_index"]
    inside = ["nsenter", f"--net={near.outside.namespace}"]
    name = next(
        each["ifname"]
        for each in json.loads(
            subprocess.run([*inside, "ip", "-j", "link"], capture_output=True, check=True, timeout=20).stdout
        )
        if each["ifindex"] == port
    )

    def plug(*state: str) -> None:
        masters = {"lan": [*inside, "ip", "link", "set", name], underlay.bridge: ["ip", "link", "set", city.link]}
        for master, command in masters.items():
            subprocess.run([*command, *(state or ("master", master))], check=True, timeout=20)

    plug("nomaster")
    try:
        yield
    finally:
        plug()


QUICK = "203.0.113.9"


@pytest.fixture(scope="module")
def quick(near: Near) -> str:
    """Run the Workload of the example again, with a page without a program; return its address."""
    made = next(yaml.safe_load_all((EXAMPLES / "way-in.yaml").read_text()))
    made["metadata"]["name"] = "quick"
    made["metadata"]["annotations"]["networking.datumapis.com/addresses"] = QUICK
    (container,) = made["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
    script = 'mkdir /tmp/www; echo "hello from $CITY" > /tmp/www/index.html; exec httpd -f -p 80 -h /tmp/www'
    container["args"] = [script]
    container["lifecycle"]["preStop"]["sleep"]["seconds"] = 8  # on a busy machine routes take longer to go
    near.planet.apply(made)
    near.planet.wait("workload/quick", "condition=Available", 120)
    near.planet.wait("workload/quick", "condition=AnycastReady", 60)
    return QUICK


def _follow(calls: Calls, city: str, what: str) -> None:
    eventually(lambda: calls.settled(city), 120, f"answers of {city} {what}")


def test_a_retry_mends_every_call_while_a_city_drains_and_comes_back(near: Near, quick: str, tmp_path: Path) -> None:
    with conditions(near, "quick", tmp_path) as states, calling(near.client("SEA"), quick, 5.0) as calls:
        for _ in range(3):
            _follow(calls, "SEA", "before the cordon")
            near.planet.kubectl("cordon", "sea-0")
            try:
                _follow(calls, "DFW", "after the cordon")
            finally:
                near.planet.kubectl("uncordon", "sea-0")
        _follow(calls, "SEA", "in the end")
        assert set(states()) == {"True"}
    failed, gap = calls.longest_failure()
    print(f"drained: {len(calls.samples)} calls, {failed} failed in a row, {gap * 1000:.0f} ms between two answers")
    # A connection whose route moves to another city is reset there.
    assert failed <= 1, [each for each in calls.samples if not each.city]
    assert {each.city for each in calls.samples} <= {"SEA", "DFW", ""}


def test_calls_go_to_the_next_city_while_the_last_instance_is_replaced(near: Near, quick: str, tmp_path: Path) -> None:
    own = "compute.datumapis.com/city-code=SEA,compute.datumapis.com/workload-name=quick"
    with conditions(near, "quick", tmp_path) as states, calling(near.client("SEA"), quick, 5.0) as calls:
        _follow(calls, "SEA", "before the deletion")
        near.planet.kubectl("delete", "instance", "-l", own, "--wait=false")
        _follow(calls, "DFW", "without an instance")
        _follow(calls, "SEA", "with the next instance")
        assert set(states()) == {"True"}
    failed, gap = calls.longest_failure()
    print(f"replaced: {len(calls.samples)} calls, {failed} failed in a row, {gap * 1000:.0f} ms between two answers")
    assert failed <= 1, [each for each in calls.samples if not each.city]
    assert {each.city for each in calls.samples} <= {"SEA", "DFW", ""}


def _is_rolled_out(near: Near) -> bool:
    try:
        near.planet.tarmac("rollout", "status", "quick", "--timeout", "20s")
    except AssertionError:
        return False
    return True


def test_a_retry_mends_every_call_during_a_rollout_in_waves(near: Near, quick: str, tmp_path: Path) -> None:
    change = '{"spec":{"template":{"metadata":{"labels":{"round":"two"}}}}}'
    with ExitStack() as stack:
        states = stack.enter_context(conditions(near, "quick", tmp_path))
        calls = {city: stack.enter_context(calling(near.client(city), quick, 5.0)) for city in CITIES}
        for city in CITIES:
            _follow(calls[city], city, "before the rollout")
        near.planet.kubectl("patch", "workload", "quick", "--type=merge", "-p", change)
        eventually(lambda: _is_rolled_out(near), 240, "the end of the rollout")
        for city in CITIES:
            _follow(calls[city], city, "after the rollout")
        assert set(states()) == {"True"}
    for city, made in calls.items():
        failed, gap = made.longest_failure()
        print(f"rollout near {city}: {len(made.samples)} calls, {failed} failed in a row, {gap * 1000:.0f} ms at most")
        assert failed <= 1, (city, [each for each in made.samples if not each.city])
        assert {each.city for each in made.samples} - {city, ""}, "its clients were answered elsewhere meanwhile"


def test_clients_of_a_city_that_is_cut_off_are_answered_from_the_next_one(
    near: Near, quick: str, tmp_path: Path
) -> None:
    with conditions(near, "quick", tmp_path) as states, calling(near.client("SEA"), quick, 0.5) as calls:
        _follow(calls, "SEA", "before the cut")
        with cut_off(near, "sea-0"):
            _follow(calls, "DFW", "after the cut")  # the session's hold time is 9 seconds
            _, gap = calls.longest_failure()
            print(f"cut off: {gap:.1f} s between the last answer of the city and the first of the next one")
            for city in ("DFW", "LHR"):
                near.until_answered(city, city)
        _follow(calls, "SEA", "when it is plugged in again")
        assert set(states()) == {"True"}


def test_a_router_that_is_killed_comes_back_and_a_new_start_of_up_keeps_the_address(near: Near) -> None:
    run = near.outside.underlay.run
    before = routers_of(run)
    assert len(before) == len(CITIES)
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: len(routers_of(run)) == len(CITIES) and before[0] not in routers_of(run), 30, "another router")
    process = near.planet.process
    flags = process.flags
    process.kill()
    eventually(lambda: not routers_of(run), 30, "the end of routers with the process that runs them")
    process.flags = tuple(each for each in flags if each != "--outside")
    process.start()
    assert not near.client("SEA").exists(), "without the flag they are removed"
    process.kill()
    process.flags = flags
    process.start()
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
