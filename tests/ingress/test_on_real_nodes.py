"""Public addresses on real nodes: a pool, a Service of type LoadBalancer, and clients on the segment outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from tarmac.api.ingress.names import API_VERSION
from tarmac.datapath.linux import namespaces
from tests.egress.planet import TARGET, Outside
from tests.ingress.telling import PORT, Call, Protocol, telling
from tests.node.planet import Json, eventually, pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

RANGE, ANYCAST = "192.168.122.64/26", "203.0.113.0/24"
NODE = "dfw-0"
"""The node with the endpoint; each city has one node, so that gateways of the others reach it through WireGuard."""
PROTOCOLS: tuple[Protocol, ...] = ("TCP", "UDP")


def pool(name: str, cidr: str, **spec: object) -> Json:
    full = {"ranges": [{"cidr": cidr}], "allowedNamespaces": {"names": ["default"]}, "holdDown": "1s", **spec}
    return {"apiVersion": API_VERSION, "kind": "AddressPool", "metadata": {"name": name}, "spec": full}


def owners(street: Outside, address: str) -> list[str]:
    """Return the nodes that report to announce an address."""
    nodes = street.planet.get("publicaddress", address).get("status", {}).get("nodes", ())
    return [each["name"] for each in nodes if each.get("announcing")]


@pytest.fixture(scope="module")
def web(street: Outside) -> Iterator[str]:
    """Run a Service with one pod that tells each caller its address; return the Service's address."""
    ports = [{"name": each.lower(), "protocol": each, "port": 80, "targetPort": PORT} for each in PROTOCOLS]
    service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}
    made = pod("web", {"name": "web", "image": "registry.local/tarmac/web:1"}, runtimeClassName="runc")
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    street.planet.apply(
        pool("public", RANGE, subnet={"prefixLength": 24}),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
        made,
    )
    street.wait_for_pod("web")
    with telling(street.netns("web")):
        street.planet.wait("service/web", "condition=LoadBalancerReady", 60)
        (shown,) = street.planet.get("service", "web")["status"]["loadBalancer"]["ingress"]
        assert shown["ipMode"] == "VIP"
        yield shown["ip"]


def test_clients_outside_reach_the_pod_by_both_protocols_and_it_sees_them(street: Outside, web: str) -> None:
    assert ip_address(web) in ip_network(RANGE)
    for protocol in PROTOCOLS:
        call = Call(street.namespace, web, protocol, 80)
        try:
            assert call.own[0] == TARGET
            assert call.ask() == call.own, protocol
        finally:
            call.close()
    spec = street.planet.get("publicaddress", web)["spec"]
    assert {each["name"] for each in spec["candidates"]} == set(street.cities)
    assert {each["name"] for each in spec["voters"]} == set(street.cities)
    (owner,) = owners(street, web)
    said = street.planet.tarmac("why", "service/web")
    assert said.startswith(f"Service default/web holds {web}."), said
    assert f"{owner} announces {web} by outside0" in said


def test_connections_go_on_when_the_owners_agent_is_killed_and_its_address_moves(street: Outside, web: str) -> None:
    with ExitStack() as stack:
        calls = [Call(street.namespace, web, protocol, 80) for protocol in PROTOCOLS for _ in range(8)]
        for call in calls:
            stack.callback(call.close)
        assert [call.ask() for call in calls] == [call.own for call in calls]
        (before,) = owners(street, web)
        for agent in street.agents(before):
            os.kill(agent, signal.SIGKILL)
        eventually(lambda: owners(street, web) not in ([], [before]), 60, "another owner")
        # A datagram on its way at the moment of the move is lost, as on any network: it is sent again.
        again = {call.own: call.ask() or call.ask() for call in calls}
        assert again == {call.own: call.own for call in calls}
        fresh = Call(street.namespace, web, "TCP", 80)
        stack.callback(fresh.close)
        assert fresh.ask() == fresh.own
    eventually(lambda: len(street.agents(before)) == 1, 60, "the agent comes back")


def outside_address(namespace: Path) -> str:
    """Return a node's address on the segment outside."""
    command = ["nsenter", f"--net={namespace}", "ip", "-j", "-4", "address", "show", "outside0"]
    (link,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return link["addr_info"][0]["local"]


def _health(street: Outside, node: str, port: int) -> tuple[int, int]:
    """Return the status at a node's port of health checks, and the number of endpoints that it tells; 0 without one."""
    with namespaces.inside(street.namespace):
        asking = socket.socket()
    with asking:
        asking.settimeout(3)
        if asking.connect_ex((outside_address(street.cities[node].host.namespace), port)):
            return 0, 0
        asking.sendall(b"GET / HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
        head, _, body = b"".join(iter(lambda: asking.recv(4096), b"")).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["localEndpoints"]


def test_every_node_answers_at_the_node_port_and_the_pod_sees_the_client(street: Outside, web: str) -> None:
    patch = '{"spec":{"externalTrafficPolicy":"%s"}}'
    outside = {node: outside_address(city.host.namespace) for node, city in street.cities.items()}
    spec = street.planet.get("service", "web")["spec"]
    numbers = {each["protocol"]: each["nodePort"] for each in spec["ports"]}

    def seen(node: str, protocol: Protocol) -> bool:
        call = Call(street.namespace, outside[node], protocol, numbers[protocol])
        try:
            return call.ask() == call.own
        except OSError:
            return False
        finally:
            call.close()

    for protocol in PROTOCOLS:
        for node in street.cities:
            eventually(lambda node=node, protocol=protocol: seen(node, protocol), 30, f"{protocol} at {node}")  # type: ignore[misc]
    street.planet.kubectl("patch", "service", "web", "--type=merge", "-p", patch % "Local")
    try:
        port = street.planet.get("service", "web")["spec"]["healthCheckNodePort"]
        for node in street.cities:
            wanted = (200, 1) if node == NODE else (503, 0)
            eventually(lambda node=node, wanted=wanted: _health(street, node, port) == wanted, 30, f"health of {node}")  # type: ignore[misc]
        assert seen(NODE, "TCP")
        assert not seen("sea-0", "UDP"), "it has no endpoint of its own"
    finally:
        street.planet.kubectl("patch", "service", "web", "--type=merge", "-p", patch % "Cluster")
    eventually(lambda: seen("sea-0", "TCP"), 30, "the policy Cluster again")


def workload(name: str, *cities: str) -> Json:
    container = {
        "name": "web",
        "image": "registry.local/tarmac/web:1",
        "ports": [{"name": "http", "port": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    }
    requests = {"cpu": "100m", "memory": "128Mi"}
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": requests},
        "sandbox": {"containers": [container]},
    }
    placement = {"name": "all", "cityCodes": list(cities), "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "annotations": {"compute.datumapis.com/enable-anycast": "true"}},
        "spec": {
            "template": {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}},
            "placements": [placement],
        },
    }


def answers(namespace: Path, address: str) -> str:
    """Return the instance that serves a node at an address; empty if none does."""
    command = ["nsenter", f"--net={namespace}", "wget", "-qO-", "-T", "3", "-t", "1"]
    command.append(f"http://{address}:8080/cgi-bin/whoami")
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.split()[1] if done.stdout.startswith("host: ") else ""


def test_nodes_reach_a_workload_at_its_address_in_their_own_city_first(street: Outside) -> None:
    """No BGP speaker announces it outside, as its condition reports; inside it leads to instances."""
    street.planet.apply(pool("anycast", ANYCAST, scope="Anycast"), workload("hello", "DFW", "SEA"))
    street.planet.wait("workload/hello", "condition=Available", 120)
    (address,) = (
        each["spec"]["address"]
        for each in street.planet.get("publicaddresses")["items"]
        if each["spec"].get("claimRef", {}).get("name") == "hello"
    )
    city_of = {each: each.partition("-")[0] for each in street.cities}
    homes = {
        each["metadata"]["name"]: each["spec"]["nodeName"]
        for each in street.planet.get("pods", "-l", "compute.datumapis.com/workload-name=hello")["items"]
    }
    assert sorted(homes.values()) == ["dfw-0", "sea-0"]

    def answered(node: str) -> str:
        return homes.get(answers(street.cities[node].host.namespace, address), "")

    for node, wanted in (("dfw-0", "dfw-0"), ("sea-0", "sea-0"), ("lhr-0", "dfw-0")):
        eventually(lambda node=node, wanted=wanted: answered(node) == wanted, 60, f"{wanted} answers {city_of[node]}")  # type: ignore[misc]
    conditions = street.planet.get("workload", "hello")["status"]["conditions"]
    ready = next(each for each in conditions if each["type"] == "AnycastReady")
    assert (ready["status"], ready["reason"]) == ("False", "NoPeer")
