"""The proposal's own example on real containers: Services of two namespaces, whose instances have the same address.

Tests name the numbers of requirements in the specification. The second service of the example is of IPv6, and its
instances dial other ports than the server listens on.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
import yaml

from tarmac.datapath.linux import namespaces
from tests.egress.planet import BILLING, EXAMPLES, ORDERS, SERVICE, TARGET, TARGET6, Outside, seen_by_datagram

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

EXAMPLE = "externalservice-of-two-namespaces.yaml"
SERVICE6 = "my-externalservice6"
ORDERS6, BILLING6 = "fd00:122::201", "fd00:122::202"
AS_PROPOSED: dict[str, Any] = {
    "targetIP": "192.168.122.139",
    "sources": [
        {"service": {"namespace": "ns1", "name": "my-service1"}, "sourceIP": "192.168.122.200"},
        {"service": {"namespace": "ns2", "name": "my-service2"}, "sourceIP": "192.168.122.201"},
    ],
    "ports": [{"protocol": "TCP", "port": 8000, "targetPort": 8000}],
}


@pytest.fixture(scope="module")
def pods(outside: Outside) -> dict[str, str]:
    """The one instance of each namespace."""
    outside.use(EXAMPLE, SERVICE, SERVICE6)
    return {"ns1": outside.pods("one", "ns1")[0], "ns2": outside.pods("two", "ns2")[0]}


def test_the_example_is_the_proposals_own_and_its_instances_have_one_address_on_one_node(
    outside: Outside, pods: dict[str, str]
) -> None:
    objects = list(yaml.safe_load_all((EXAMPLES / EXAMPLE).read_text()))
    (written,) = [each["spec"] for each in objects if each["metadata"]["name"] == SERVICE]
    assert written == AS_PROPOSED
    found = [outside.planet.get("pod", "-n", namespace, pod) for namespace, pod in pods.items()]
    assert len({(each["spec"]["nodeName"], each["status"]["podIP"]) for each in found}) == 1, "both at once"


@pytest.mark.parametrize(
    ("service", "port", "seen"),
    [(SERVICE, 8000, {"ns1": ORDERS, "ns2": BILLING}), (SERVICE6, 5432, {"ns1": ORDERS6, "ns2": BILLING6})],
)
def test_e1_e3_e4_each_is_seen_under_its_address_by_the_name_at_the_port_that_it_dials(
    outside: Outside, pods: dict[str, str], service: str, port: int, seen: dict[str, str]
) -> None:
    name = f"{service}.external-services"
    assert {each: outside.seen(pod, port, at=name, namespace=each) for each, pod in pods.items()} == seen


def test_e1_e3_l2_a_pod_that_joins_is_seen_the_same_by_its_datagrams(outside: Outside, pods: dict[str, str]) -> None:
    for namespace, workload in (("ns1", "one"), ("ns2", "two")):
        outside.plain("joins", workload, "sea-0", namespace)
    for namespace in pods:
        outside.wait_for_pod("joins", namespace)
    began, dialled = time.monotonic(), outside.dialled(SERVICE6)
    homes = {namespace: outside.netns("joins", namespace) for namespace in pods}
    seen: dict[str, str] = {}
    while seen != {"ns1": ORDERS6, "ns2": BILLING6} and time.monotonic() - began < 10:
        seen = {each: seen_by_datagram(home, dialled, 5353) for each, home in homes.items()}
    print(f"pod added → admitted: {time.monotonic() - began:.2f} s after it was ready, bar 1 s")
    assert seen == {"ns1": ORDERS6, "ns2": BILLING6}
    for namespace in pods:
        outside.planet.kubectl("delete", "pod", "-n", namespace, "joins", "--wait=false")


def test_e1_e2_other_ports_and_other_instances_are_refused(outside: Outside, pods: dict[str, str]) -> None:
    assert outside.seen(pods["ns1"], 5432, namespace="ns1") == "", "not a port of it"
    assert outside.seen(pods["ns1"], 8000, at=outside.dialled(SERVICE6), namespace="ns1") == "", "the server's port"
    outside.planet.kubectl("annotate", "service", "-n", "ns2", "my-service2", "submariner.io/allowed-from-")
    try:
        outside.planet.wait(f"externalservice/{SERVICE}", "condition=Ready=False", 20)
        assert outside.seen(pods["ns2"], namespace="ns2") == "", "a service without a grant"
        assert outside.seen(pods["ns1"], namespace="ns1") == ORDERS, "the other service is unaffected"
    finally:
        outside.use(EXAMPLE, SERVICE, SERVICE6)
    assert outside.seen(pods["ns2"], namespace="ns2") == BILLING


def test_i1_each_service_answers_at_port_80_of_its_own_address(outside: Outside, pods: dict[str, str]) -> None:
    first, second = (pods["ns1"], "joins"), (pods["ns2"], "joins")  # the latter while it is ending still
    for address, own in ((ORDERS, first), (BILLING, second), (ORDERS6, first), (BILLING6, second)):
        assert outside.answers(address) in own


@pytest.mark.parametrize(("address", "server"), [(BILLING, TARGET), (BILLING6, TARGET6)])
def test_i2_the_instance_sees_the_server_itself(
    outside: Outside, pods: dict[str, str], address: str, server: str
) -> None:
    with namespaces.inside(outside.namespace):
        caller = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    with caller:
        caller.settimeout(5)
        caller.connect((address, 80))
        there = outside.planet.kubectl("exec", "-n", "ns2", pods["ns2"], "--", "netstat", "-tn")
    assert f"{server}:" in there
    assert address not in there
