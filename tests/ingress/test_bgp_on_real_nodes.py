"""Public addresses that real nodes announce by BGP to a router outside, with a password; the router is the client."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest

from tarmac.api.ingress.names import ANNOTATION_POOL, API_VERSION
from tests.datapath.routers import NODE_ASN, ROUTER_ASN, Router, is_alive, routing
from tests.egress.planet import TARGET, Outside
from tests.ingress.telling import PORT, Call, telling
from tests.ingress.test_on_real_nodes import NODE, PROTOCOLS, answers, outside_address, pool, workload
from tests.node.planet import Json, eventually, pod
from tests.support.exposition import series

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

RANGE, FAR = "192.0.2.0/25", "192.0.2.128/25"
PASSWORD = "correct horse"


class Edge:
    """The planet, and the router."""

    def __init__(self, street: Outside, router: Router, links: dict[str, str]) -> None:
        self.street, self.router, self.links = street, router, links

    def leads(self, address: str) -> set[str]:
        """Return the nodes that the router sends packets for an address to."""
        found = self.router.next_hops(address)
        return {node for node, own in self.links.items() if own in found}

    def until_it_leads(self, address: str, *nodes: str) -> None:
        eventually(lambda: self.leads(address) == set(nodes), 60, f"a route of {address} to {nodes}")

    def bird(self, node: str) -> int:
        """Return the process of a node's speaker; 0 if it has none."""
        file = self.street.cities[node].run / "agent" / "speaker.pid"
        try:
            process = int(file.read_text())
        except (FileNotFoundError, ValueError):
            return 0
        return process if is_alive(process) else 0

    @contextmanager
    def never_without_a_route(self, address: str) -> Generator[None]:
        """Check that the router has a route at every moment of the block."""
        lost, over = list[str](), Event()

        def look() -> None:
            while not over.wait(0.05):
                if not self.router.next_hops(address):
                    lost.append(address)

        looking = Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join(10)
        assert not lost, f"{len(lost)} times without a route"


def _peer() -> list[Json]:
    secret = {"metadata": {"name": "edge", "namespace": "kube-system"}, "stringData": {"password": PASSWORD}}
    spec = {"address": TARGET, "asn": ROUTER_ASN, "localASN": NODE_ASN, "passwordSecret": "edge"}
    peer = {"apiVersion": API_VERSION, "kind": "BGPPeer", "metadata": {"name": "edge"}, "spec": spec}
    return [{"apiVersion": "v1", "kind": "Secret"} | secret, peer]


@pytest.fixture(scope="module")
def edge(street: Outside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    links = {node: outside_address(city.host.namespace) for node, city in street.cities.items()}
    sessions = {node.replace("-", "_"): own for node, own in links.items()}
    folder = tmp_path_factory.mktemp("router")
    with routing(Router(street.namespace, folder, TARGET, sessions, password=PASSWORD)) as router:
        made = Edge(street, router, links)
        # Nothing runs before there is a peer.
        eventually(lambda: not any(made.bird(node) for node in street.cities), 60, "the end of other peers' speakers")
        street.planet.apply(
            *_peer(),
            pool("routed", RANGE, announce="bgp", autoAssign=False),
            pool("far", FAR, scope="Anycast", priority=1),
        )
        street.planet.wait("bgppeer/edge", "condition=Established", 60)
        yield made
        kinds = ("service/routed", "workload/wide", "pod/routed", "addresspool/routed", "addresspool/far")
        street.planet.kubectl("delete", "--wait=false", *kinds, "bgppeer/edge")
        street.planet.kubectl("delete", "-n", "kube-system", "secret", "edge")
        eventually(lambda: not any(made.bird(node) for node in street.cities), 60, "the end of all speakers")
        gone = ("get", "addresspools,workloads,bgppeers", "-o", "name")
        eventually(lambda: not {"routed", "far", "wide", "edge"} & _names(street.planet.kubectl(*gone)), 60, "the end")


def _names(said: str) -> set[str]:
    return {each.rpartition("/")[2] for each in said.split()}


@pytest.fixture(scope="module")
def address(edge: Edge) -> Iterator[str]:
    """Yield the announced address of a Service with one pod, which tells each caller its address."""
    ports = [{"name": each.lower(), "protocol": each, "port": 80, "targetPort": PORT} for each in PROTOCOLS]
    metadata = {"name": "routed", "annotations": {ANNOTATION_POOL: "routed"}}
    spec = {"type": "LoadBalancer", "selector": {"app": "routed"}, "ports": ports}
    made = pod("routed", {"name": "web", "image": "registry.local/tarmac/web:1"}, runtimeClassName="runc")
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
    edge.street.planet.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}, made)
    edge.street.wait_for_pod("routed")
    with telling(edge.street.netns("routed")):
        edge.street.planet.wait("service/routed", "condition=LoadBalancerReady", 60)
        (shown,) = edge.street.planet.get("service", "routed")["status"]["loadBalancer"]["ingress"]
        yield shown["ip"]


def test_clients_behind_a_router_reach_the_pod_through_every_gateway_and_it_sees_them(edge: Edge, address: str) -> None:
    edge.until_it_leads(address, *edge.links)
    for protocol in PROTOCOLS:
        for _ in range(6):  # other source ports: other gateways
            call = Call(edge.street.namespace, address, protocol, 80)
            try:
                assert call.ask() == call.own, protocol
            finally:
                call.close()
    sessions = edge.street.planet.get("bgppeer", "edge")["status"]["nodes"]
    assert {(each["name"], each["state"]) for each in sessions} == {(node, "Established") for node in edge.links}
    assert "announces" in (said := edge.street.planet.tarmac("why", "service/routed")), said
    assert edge.street.planet.tarmac("why", "bgppeer/edge").startswith("BGPPeer edge has all sessions.")
    assert f"announces {address} by edge" in edge.street.planet.tarmac("why", f"publicaddress/{address}")
    assert edge.street.planet.tarmac("why", "addresspool/routed").startswith("AddressPool routed can be used.")


def test_every_node_reaches_the_address_itself(edge: Edge, address: str) -> None:
    edge.until_it_leads(address, *edge.links)
    lines = edge.street.planet.tarmac("ingress", "check", "routed").splitlines()
    results = {line.split()[1]: line.split()[-1] for line in lines if line.startswith(address)}
    assert results == dict.fromkeys(edge.links, "OK"), lines
    told = series(edge.street.planet.kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/metrics"))
    assert told["tarmac_ingress_selftests_total", frozenset({("result", "passed")})] > 0


def test_sessions_and_addresses_are_metrics_of_nodes_and_servers(edge: Edge, address: str) -> None:
    edge.until_it_leads(address, *edge.links)
    for node in edge.links:
        told = series(edge.street.planet.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics"))
        found = {name: value for (name, labels), value in told.items() if dict(labels).get("peer") == "edge"}
        assert found == {"tarmac_bgp_session_up": 1, "tarmac_bgp_announced": 1}
    told = series(edge.street.planet.kubectl("get", "--raw", "/metrics"))
    labels = frozenset({("pool", "routed"), ("result", "announced")})
    assert told["tarmac_public_addresses_announced", labels] == 1
    assert told["tarmac_bgp_sessions", frozenset({("peer", "edge"), ("state", "up")})] == len(edge.links)


def test_calls_go_on_when_speaker_and_agent_are_killed_and_a_gateway_is_cordoned(edge: Edge, address: str) -> None:
    planet, street = edge.street.planet, edge.street
    edge.until_it_leads(address, *edge.links)
    with ExitStack() as stack:
        calls = [Call(street.namespace, address, protocol, 80) for protocol in PROTOCOLS for _ in range(8)]
        for call in calls:
            stack.callback(call.close)

        def all_go_on(after: str) -> None:
            # A datagram on its way at the moment of a change is lost, as on any network: it is sent again.
            assert [call.ask() or call.ask() for call in calls] == [call.own for call in calls], after

        all_go_on("nothing")
        with edge.never_without_a_route(address):
            first = edge.bird("sea-0")
            os.kill(first, signal.SIGKILL)
            all_go_on("the end of a speaker")
            eventually(lambda: edge.bird("sea-0") not in (0, first), 30, "another speaker")
            second = edge.bird("sea-0")
            (agent,) = street.agents("sea-0")
            os.kill(agent, signal.SIGKILL)
            eventually(lambda: not is_alive(second), 30, "the end of a speaker with its agent")
            all_go_on("the end of an agent")
            eventually(lambda: edge.bird("sea-0") not in (0, second), 60, "the speaker of the next agent")
            edge.until_it_leads(address, *edge.links)
            all_go_on("the next agent")
            planet.kubectl("cordon", NODE)
            edge.until_it_leads(address, *(edge.links.keys() - {NODE}))
            all_go_on("the cordon of a gateway")
            planet.kubectl("uncordon", NODE)
            edge.until_it_leads(address, *edge.links)
        planet.kubectl("patch", "service", "routed", "--type=merge", "-p", '{"spec":{"externalTrafficPolicy":"Local"}}')
        edge.until_it_leads(address, NODE)
        all_go_on("the traffic policy Local")


def test_a_workload_is_announced_from_the_cities_of_its_instances(edge: Edge) -> None:
    planet = edge.street.planet
    planet.apply(workload("wide", "DFW", "SEA"))
    planet.wait("workload/wide", "condition=AnycastReady", 120)
    (address,) = planet.get("workload", "wide")["status"]["anycastAddresses"]
    edge.until_it_leads(address, "dfw-0", "sea-0")
    assert answers(edge.street.namespace, address).startswith("wide-")
    planet.kubectl("cordon", "sea-0")
    try:
        edge.until_it_leads(address, "dfw-0")
        assert answers(edge.street.namespace, address).startswith("wide-")
    finally:
        planet.kubectl("uncordon", "sea-0")
    edge.until_it_leads(address, "dfw-0", "sea-0")
