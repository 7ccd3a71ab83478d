"""Nodes and their networks: ports of a node that lead to pods, and services that pods with `hostNetwork` reach."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.apps.cities.removing import underlay_of
from tests.node.planet import Json, Planet, busybox, eventually, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

SPACE = "edge"
SERVE = "echo served > /tmp/index.html; exec httpd -f -p 8000 -h /tmp"
POLICY: Json = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "NetworkPolicy",
    "metadata": {"name": "quiet", "namespace": SPACE},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"podSelector": {}}]}]},
}


def in_city(city: str, made: Json) -> Json:
    made["metadata"]["namespace"] = SPACE
    made["spec"]["nodeSelector"] = {TOPOLOGY_CITY_CODE: city}
    return made


@dataclass(frozen=True)
class Edge:
    """One city has a pod that serves, by a port of its node and a Service; the other a client, part of its node."""

    planet: Planet

    def run(self, *arguments: str) -> str:
        return self.planet.kubectl.run("-n", SPACE, *arguments).out.strip()

    def asked_by_the_node(self, *places: str) -> list[str]:
        """Return the responses that the client gets, by URL."""
        asks = (("exec", "client", "--", "timeout", "4", "wget", "-qO-", f"http://{each}/") for each in places)
        return [self.run(*ask) for ask in asks]

    def node_address(self, node: str) -> str:
        addresses = self.planet.get("node", node)["status"]["addresses"]
        return next(each["address"] for each in addresses if each["type"] == "InternalIP")


@pytest.fixture(scope="module")
def edge(planet: Planet) -> Iterator[Edge]:
    space = {"name": SPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
    ports = [{"containerPort": 8000, "hostPort": 8088}]
    service: Json = {
        "ipFamilyPolicy": "RequireDualStack",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "targetPort": 8000}],
    }
    planet.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
    planet.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": SPACE}, "spec": service},
        in_city("LHR", pod("web", busybox(script=SERVE, ports=ports), runtimeClassName="gvisor")),
        in_city("DFW", pod("client", busybox(), hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")),
    )
    made = Edge(planet)
    for name in ("web", "client"):
        said = made.run("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        assert "condition met" in said, made.run("get", "pods,events", "-o", "wide")
    yield made
    planet.kubectl.run("delete", "namespace", SPACE, "--wait", timeout=90)


def test_a_part_of_the_node_reaches_services_of_its_namespace_in_another_city(edge: Edge) -> None:
    spec = edge.planet.get("service", "web", "-n", SPACE)["spec"]
    four, six = sorted(spec["clusterIPs"], key=len)
    places = (four, f"[{six}]")
    eventually(lambda: edge.asked_by_the_node(*places) == ["served", "served"], 30, "an answer over both families")


def test_a_part_of_the_node_finds_services_by_name(edge: Edge) -> None:
    for name in ("web", f"web.{SPACE}.svc.cluster.local"):
        eventually(lambda name=name: edge.asked_by_the_node(name) == ["served"], 30, f"an answer at {name}")


def test_a_port_of_the_node_is_there_for_other_machines(edge: Edge) -> None:
    address = edge.node_address("lhr-0")
    with urllib.request.urlopen(f"http://{address}:8088/", timeout=5) as answer:
        assert answer.read().strip() == b"served"
    assert edge.asked_by_the_node(f"{address}:8088") == ["served"]


def test_policies_hold_for_both(edge: Edge) -> None:
    address = edge.planet.get("service", "web", "-n", SPACE)["spec"]["clusterIP"]
    places = (address, f"{edge.node_address('lhr-0')}:8088")
    eventually(lambda: edge.asked_by_the_node(*places) == ["served", "served"], 30, "the service")
    edge.planet.apply(POLICY)
    eventually(lambda: edge.asked_by_the_node(*places) == ["", ""], 30, "the refusal")
    edge.run("delete", "networkpolicies.networking.datumapis.com", "quiet")
    eventually(lambda: edge.asked_by_the_node(*places) == ["served", "served"], 30, "the end of the refusal")


def test_a_port_goes_with_its_pod(edge: Edge) -> None:
    address = edge.node_address("lhr-0")
    edge.run("delete", "pod", "web", "--wait")
    eventually(lambda: edge.asked_by_the_node(f"{address}:8088") == [""], 30, "the port's end")


def test_routes_into_networks_leave_a_city_its_default_route(edge: Edge) -> None:
    for city in underlay_of(edge.planet.data_dir).cities:
        for family, gateway in zip("46", underlay_of(edge.planet.data_dir).gateways, strict=True):
            command = ["nsenter", f"--net={city.namespace}", "ip", f"-{family}", "route", "show", "default"]
            found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
            assert found.startswith(f"default via {gateway} dev eth0"), city.name
