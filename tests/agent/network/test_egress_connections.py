"""A node reports connections of an ExternalService with their pods and addresses, and no other connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tarmac.agent.network.egressconnections import LocalExternalConnections
from tarmac.api.egress.connections import MAX_CONNECTIONS, CarriedConnection, ForwardedConnection, NodeConnections
from tarmac.api.egress.names import LABEL_NODE, NAMESPACE, forwarder_name
from tarmac.base.tasks import background
from tarmac.client.informer import Informers
from tarmac.datapath.egress import TranslatedConnection, Translations
from tarmac.datapath.fake import FakeDatapath
from tests.controllers.harness import Stage

POD, DIAL, TARGET, SOURCE = "10.128.0.2", "169.254.192.7", "192.0.2.139", "192.0.2.200"
ONE, TWO = "240.0.0.1", "240.0.0.2"
OUT = TranslatedConnection("TCP", (POD, 40_000), (DIAL, 8000), (TARGET, 5432), (ONE, 40_000), 10, 20, 1.8e9)
IN = TranslatedConnection("TCP", (TARGET, 50_000), (TWO, 80), (POD, 8080), (TARGET, 50_000), 30, 40, 1.8e9)
CARRIED_OUT = TranslatedConnection("TCP", (ONE, 40_000), (TARGET, 5432), (TARGET, 5432), (SOURCE, 41_000))
CARRIED_IN = TranslatedConnection("TCP", (TARGET, 50_000), (SOURCE, 80), (TWO, 80), (TARGET, 50_000))


class Node:
    """A node with two pods of one address on two Networks, and connections in its kernel."""

    def __init__(self, here: LocalExternalConnections, datapath: FakeDatapath) -> None:
        self.here, self.external = here, datapath.external

    async def told(
        self, forwarded: list[TranslatedConnection], carried: list[TranslatedConnection], name: str = "db"
    ) -> NodeConnections:
        self.external.translations = Translations(forwarded, carried)
        return await self.here.of("default", name)


@asynccontextmanager
async def node() -> AsyncGenerator[Node]:
    stage = Stage()
    own = forwarder_name("default", "db", "n1")
    rules: dict[str, Any] = {
        "egressrules": [{"pod": "u1", "sourceip": POD, "transitip": ONE}, {"pod": "gone", "sourceip": POD}],
        "ingressrules": [{"pod": "u2", "destinationip": POD, "transitip": TWO}],
    }
    metadata = {"labels": {LABEL_NODE: "n1"}}
    stage.server.put("forwarders", own, NAMESPACE, metadata=metadata, spec={"nodeName": "n1", **rules})
    ways = {
        "egressrules": [{"forwarder": {"name": own}, "sourceip": ONE}],
        "ingressrules": [{"forwarder": {"name": own}, "destinationip": TWO}],
    }
    stage.server.put("gateways", SOURCE, NAMESPACE, spec={"gatewayip": SOURCE, **ways})
    informers, datapath = Informers(stage.client), FakeDatapath()
    pods = [{"metadata": {"namespace": space, "name": "web", "uid": uid}} for space, uid in (("a", "u1"), ("b", "u2"))]
    here = LocalExternalConnections(informers, "n1", datapath.external, lambda: pods)
    async with background(informers.run(), "informers"):
        await stage.settle()
        yield Node(here, datapath)


async def test_pods_are_known_by_transit_address_and_their_own() -> None:
    async with node() as here:
        assert (await here.told([OUT, IN], [])).forwarded == [
            ForwardedConnection("a/web", "u1", "TCP", "out", DIAL, 8000, TARGET, 5432, ONE, 40_000, 10, 20, 1.8e9),
            ForwardedConnection("b/web", "u2", "TCP", "in", POD, 8080, TARGET, 50_000, TWO, 80, 40, 30, 1.8e9),
        ]


async def test_connections_show_their_external_address_in_both_directions() -> None:
    async with node() as here:
        assert (await here.told([], [CARRIED_OUT, CARRIED_IN])).carried == [
            CarriedConnection("TCP", ONE, 40_000, TARGET, 5432, SOURCE, 41_000),
            CarriedConnection("TCP", TWO, 80, TARGET, 50_000, SOURCE, 80),
        ]


async def test_of_what_it_has_no_part_in_it_knows_nothing() -> None:
    async with node() as here:
        assert await here.told([OUT], [CARRIED_OUT], "db2") == NodeConnections()
        strange = TranslatedConnection("TCP", ("10.128.0.9", 1), (DIAL, 8000), (TARGET, 5432), (ONE, 1))
        assert await here.told([strange], [OUT]) == NodeConnections()


async def test_a_thousand_are_told_and_that_there_are_more() -> None:
    async with node() as here:
        told = await here.told([OUT] * (MAX_CONNECTIONS + 1), [])
        assert (len(told.forwarded), told.more) == (MAX_CONNECTIONS, True)
