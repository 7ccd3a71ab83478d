"""Two gateways share their connections, also when an agent is killed."""

from __future__ import annotations

import os
import signal

import pytest

from tests.egress.planet import ORDERS, SERVICE, Outside, sharing
from tests.node.planet import eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def example(outside: Outside) -> None:
    outside.use("externalservice.yaml", SERVICE)


def test_two_gateways_share_their_connections_also_when_an_agent_is_killed(outside: Outside) -> None:
    """The program keeps running without its agent, and the next agent takes it over."""

    pairs = outside.sharing
    eventually(lambda: len(pairs()) == 2, what="connections are shared")
    one, other = sorted(pairs())
    assert pairs() == {one: other, other: one}
    before = sharing(outside.underlay.run)
    assert len(before) == 2
    (agent,) = outside.agents(one)
    os.kill(agent, signal.SIGKILL)
    eventually(lambda: outside.agents(one) not in ([], [agent]), what="the agent comes back")
    eventually(lambda: pairs() == {one: other, other: one}, what="its word about its partner")
    assert sharing(outside.underlay.run) == before, "the same processes"
    offered = outside.planet.get("sourceipclass", outside.planet.get("sourceip", ORDERS)["spec"]["className"])
    (found,) = [each for each in offered["status"]["conditions"] if each["type"] == "Redundant"]
    assert found["reason"] == "NotSynced", "there are three gateways, and one has no partner"
    for pod in outside.pods("orders"):
        eventually(lambda pod=pod: outside.seen(pod) == ORDERS, what="the node is what it was")
