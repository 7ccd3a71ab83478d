"""External services on real nodes: `tarmac up --outside`, real instances, and a server that reports their source."""

from __future__ import annotations

import os
import signal

import pytest

from tests.egress.planet import BILLING, ORDERS, SERVICE, Outside, Stream
from tests.node.planet import eventually
from tests.support.exposition import series

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def example(outside: Outside) -> None:
    outside.use("externalservice.yaml", SERVICE)
    # An earlier test may have deleted a pod, which takes time.
    eventually(lambda: [len(outside.pods(each)) for each in ("orders", "billing")] == [2, 1], what="two pods and one")


def test_each_service_is_seen_under_its_address_wherever_its_instances_run(outside: Outside) -> None:
    orders, billing = outside.pods("orders"), outside.pods("billing")
    assert (len(orders), len(billing)) == (2, 1)
    assert {outside.seen(pod) for pod in orders} == {ORDERS}
    assert outside.seen(billing[0]) == BILLING
    assert outside.seen(orders[0], 8001) == "", "a port that is not declared"


def test_pods_dial_the_target_port_and_the_server_listens_on_the_port(outside: Outside) -> None:
    pod, usual = outside.pods("orders")[0], outside.planet.get("externalservice", SERVICE)["spec"]["ports"]
    other = [{"protocol": "TCP", "port": 8000, "targetPort": 5432}]
    outside.ports(other)
    try:
        eventually(lambda: outside.seen(pod, 5432) == ORDERS, what="the new port")
        assert outside.seen(pod, 8000) == ""
    finally:
        outside.ports(usual)
    eventually(lambda: outside.seen(pod) == ORDERS, what="the port of before")


def test_the_server_reaches_each_service_back_at_the_same_address(outside: Outside) -> None:
    assert outside.answers(ORDERS) in outside.pods("orders")
    assert outside.answers(BILLING) in outside.pods("billing")


def test_metrics_of_servers_and_nodes_are_valid_prometheus_text(outside: Outside) -> None:
    """One invalid line would drop all metrics of the node."""
    assert {outside.seen(pod) for pod in outside.pods("orders")} == {ORDERS}
    for path in ("metrics", "metrics/resource"):
        found = {
            node: series(outside.planet.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/{path}"))
            for node in outside.cities
        }
        assert all(found.values())
        if path == "metrics":
            told = found[outside.gateway(ORDERS)]
            labels = {"namespace": "default", "externalservice": SERVICE, "sourceip": ORDERS, "direction": "out"}
            assert told["tarmac_external_connections_total", frozenset(labels.items())] > 0
    assert series(outside.planet.kubectl("get", "--raw", "/metrics"))


def test_a_connection_stays_and_keeps_its_source_while_its_gateway_is_cordoned_killed_or_stopped(
    outside: Outside,
) -> None:
    pod, dialled = outside.pods("orders")[0], outside.dialled()
    with Stream(outside, pod, dialled) as stream:
        first = outside.gateway(ORDERS)
        stream.goes_on()
        outside.planet.kubectl("cordon", first)
        try:
            eventually(lambda: outside.gateway(ORDERS) not in ("", first), what="the move")
            stream.goes_on()
        finally:
            outside.planet.kubectl("uncordon", first)
        second = outside.gateway(ORDERS)
        (agent,) = outside.agents(second)
        os.kill(agent, signal.SIGKILL)
        eventually(lambda: outside.gateway(ORDERS) not in ("", second), what="the move away from a killed agent")
        stream.goes_on()
        third = outside.gateway(ORDERS)
        log = outside.cities[third].log
        before = log.read_text().count("address given up")
        eventually(lambda: len(outside.agents(second)) == 1, what="the killed agent comes back")
        (agent,) = outside.agents(third)
        os.kill(agent, signal.SIGTERM)
        eventually(lambda: outside.gateway(ORDERS) not in ("", third), what="the move away from one that stops")
        assert log.read_text().count("address given up") > before, "it ended in order"
        stream.goes_on()
        eventually(lambda: bool(stream.said()), what="the stopped agent comes back")
        (seen,) = set(stream.said())
        assert seen.startswith(f"you are {ORDERS} port "), "one address and one port, all the time"
    outside.planet.wait(f"externalservice/{SERVICE}", "condition=Ready", 60)


def test_pods_without_a_source_are_refused_and_withdrawn_sources_end(outside: Outside) -> None:
    billing = outside.pods("billing")[0]
    eventually(lambda: outside.seen(billing) == BILLING, what="an agent that was killed comes back")
    with Stream(outside, billing, outside.dialled()) as stream:
        stream.goes_on()
        claim = ("sourceipclass", "partner", "--type=merge", "-p")
        outside.planet.kubectl("patch", *claim, '{"spec":{"allowedNamespaces":{"names":["nobody"]}}}')
        eventually(lambda: outside.seen(billing) == "", what="the refusal")
        eventually(stream.is_over, 10, "the end of the stream")
        outside.planet.kubectl("patch", *claim, '{"spec":{"allowedNamespaces":{"names":["default"]}}}')
    eventually(lambda: outside.seen(billing) == BILLING, what="the way back")
