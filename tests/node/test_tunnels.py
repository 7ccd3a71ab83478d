"""A firewall that drops a tunnel's packets in one direction shows on the Nodes, in `tarmac status` and `why`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.apps.cities.layout import city_of
from tarmac.apps.cities.removing import underlay_of
from tests.node.planet import Json, Planet, eventually
from tests.node.test_networks import network as plain_network
from tests.node.test_networks import workload
from tests.support.wire import Wire, udp_port

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

FIREWALL = (
    'table inet firewall { chain in { type filter hook input priority -10 ; iifname != "tw*" udp dport %s drop ; } ; }'
)


def network(name: str, encryption: str) -> Json:
    made = plain_network(name, "10.79.0.0/16")
    made["spec"]["encryption"] = encryption
    return made


@pytest.fixture
def instances(planet: Planet) -> Iterator[dict[str, str]]:
    """Yield the names of two instances by city, on a Network that is not encrypted."""
    planet.apply(network("bare", "Never"), workload("pair", ["DFW", "LHR"], ["bare"]))
    try:
        planet.wait("workload/pair", "condition=Available", 120)
        pods = planet.get("pods", "-l", f"{LABEL_WORKLOAD_NAME}=pair")["items"]
        yield {each["metadata"]["labels"][LABEL_CITY_CODE]: each["metadata"]["name"] for each in pods}
    finally:
        planet.kubectl.run("delete", "workload", "pair", "--wait", timeout=90)
        planet.kubectl.run("delete", "network", "bare", "--wait", timeout=60)


@contextmanager
def firewall(planet: Planet, city: str, port: int) -> Generator[None]:
    """Drop packets to a port of a city, while the block lasts."""
    where = f"--net={city_of(city, underlay_of(planet.data_dir), planet.data_dir).host.namespace}"
    subprocess.run(["nsenter", where, "nft", FIREWALL % port], check=True, timeout=10)
    try:
        yield
    finally:
        subprocess.run(["nsenter", where, "nft", "delete", "table", "inet", "firewall"], check=True, timeout=10)


def tarmac(planet: Planet, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tarmac.apps.main", *words, "--kubeconfig", str(planet.process.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def said(planet: Planet, node: str) -> tuple[str, str]:
    """Return status and message of the Node's condition."""
    conditions = planet.get("node", node)["status"]["conditions"]
    found = next((each for each in conditions if each["type"] == "TunnelsReachable"), {})
    return found.get("status", ""), found.get("message", "")


def test_a_port_that_is_closed_in_one_direction_is_told_everywhere(planet: Planet, instances: dict[str, str]) -> None:
    ask = ("why", f"instance/{instances['DFW']}", "--reach", f"{instances['LHR']}:8000")
    eventually(lambda: {said(planet, each)[0] for each in ("dfw-0", "lhr-0")} == {"True"}, 60, "open tunnels")
    code, text = tarmac(planet, *ask)
    assert (code, "find their tunnels open" in " ".join(text.split())) == (0, True), text
    with firewall(planet, "LHR", 4789):
        wanted = [("False", "4789/udp to lhr-0 is closed"), ("False", "4789/udp from dfw-0 is closed")]
        eventually(lambda: [said(planet, each) for each in ("dfw-0", "lhr-0")] == wanted, 90, "the conditions")
        assert "Tunnels:       closed: dfw-0 to lhr-0, 4789/udp" in tarmac(planet, "status")[1]
        code, text = tarmac(planet, *ask, "-o", "json")
        answer = json.loads(text)
        assert (code, answer["answer"], answer["paths"][0]["lines"][-1]["reason"]) == (3, "No", "TunnelClosed")
        assert "4789/udp from node dfw-0 to node lhr-0 is closed" in answer["sentence"]
        ready = [each for each in planet.get("nodes")["items"] for each in each["status"]["conditions"]]
        assert {each["status"] for each in ready if each["type"] == "Ready"} == {"True"}, "nodes stay Ready"
        events = planet.get("events", "--field-selector", "reason=TunnelClosed")["items"]
        assert {each["involvedObject"]["name"] for each in events} == {"dfw-0", "lhr-0"}
    eventually(lambda: {said(planet, each)[0] for each in ("dfw-0", "lhr-0")} == {"True"}, 60, "open tunnels again")
    assert tarmac(planet, *ask)[0] == 0


def test_between_cities_instances_are_encrypted_unless_their_network_says_never(planet: Planet) -> None:
    planet.apply(network("sealed", "BetweenLocations"), workload("sealed", ["DFW", "LHR"], ["sealed"]))
    try:
        planet.wait("workload/sealed", "condition=Available", 120)
        pods = planet.get("pods", "-l", f"{LABEL_WORKLOAD_NAME}=sealed")["items"]
        named = {each["metadata"]["labels"][LABEL_CITY_CODE]: each for each in pods}
        here, there = named["DFW"]["metadata"]["name"], named["LHR"]["metadata"]["name"]
        words = ("exec", here, "--", "timeout", "4", "wget", "-qO-", f"http://{named['LHR']['status']['podIP']}:8000/")
        with Wire(underlay_of(planet.data_dir), "dfw") as wire:
            eventually(lambda: planet.kubectl.run(*words).out.strip() == there, 60, "an answer")
            frames = wire.frames()
            assert not [frame for frame in frames if there.encode() in frame]
            assert {port for port in map(udp_port, frames) if port in (4789, 4802)} == {4802}
            planet.kubectl("patch", "network", "sealed", "--type=merge", "-p", '{"spec":{"encryption":"Never"}}')
            eventually(lambda: planet.kubectl.run(*words).out.strip() == there and seen(wire, there), 60, "clear text")
    finally:
        planet.kubectl.run("delete", "workload", "sealed", "--wait", timeout=90)
        planet.kubectl.run("delete", "network", "sealed", "--wait", timeout=60)


def seen(wire: Wire, text: str) -> bool:
    return any(text.encode() in frame for frame in wire.frames())
