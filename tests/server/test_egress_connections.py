"""Live connections of an ExternalService: the server queries nodes, joins the reports, trusts each for its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import msgspec
import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.egress.connections import CarriedConnection, ForwardedConnection, NodeConnections
from tarmac.api.status import InternalError
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import AdmissionChain
from tarmac.server.app import RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.subresources.nodestreams import NoNodes
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, OpenGates

PATH = "/apis/submariner.io/v1alpha1/namespaces/team/externalservices/db/connections"
TRANSIT = "240.0.0.7"


class Nodes(NoNodes):
    """Nodes with given responses; all other nodes are unreachable."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answers: dict[str, NodeConnections | bytes] = {}

    def fetch(self, node: str, target: str, most: int) -> Awaitable[bytes] | None:
        self.asked.append((node, target))
        return self._answer(self.answers[node]) if node in self.answers else None

    async def _answer(self, answer: NodeConnections | bytes) -> bytes:
        if answer == b"":
            raise InternalError("it has hung up")
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
async def client(store: MemoryStore, gates: OpenGates, clock: ManualClock, nodes: Nodes) -> AsyncIterator[Client]:
    doors = RequestGates(gates, gates, gates, gates)
    given: dict[str, Any] = {"reviews": gates, "issuer": gates, "connections": nodes}
    server = assemble(ServerParts(store, build_catalog(), doors, AdmissionChain(()), clock, Randomness(1), **given))
    await server.start()
    yield Client(server)
    await server.stop()


@pytest.fixture(autouse=True)
async def objects(store: MemoryStore) -> None:
    """A service with a pod on dfw-0 and its address on dfw-1; beside it a service with a longer name."""

    async def put(bucket: str, name: str, **obj: Any) -> None:
        own = name.rpartition("/")
        metadata = {"namespace": own[0], "name": own[2], "uid": f"uid-{own[2]}"}
        await store.create(bucket, name, msgspec.json.encode({"metadata": metadata, **obj}))

    rule = {"transitip": TRANSIT, "gateway": {"name": "192.0.2.5"}}
    await put("submariner.io/externalservices", "team/db", spec={})
    await put(
        "submariner.io/forwarders",
        "external-services/team.db.00000000",
        spec={"nodeName": "dfw-0", "egressrules": [rule]},
    )
    await put("submariner.io/forwarders", "external-services/team.db2.00000000", spec={"nodeName": "ams-0"})
    carried = [{"name": "dfw-1", "owner": True}, {"name": "dfw-2"}]
    await put(
        "submariner.io/gateways",
        "external-services/192.0.2.5",
        spec={"gatewayip": "192.0.2.5"},
        status={"nodes": carried},
    )
    for name, node in (("web", "dfw-0"), ("far", "ams-0")):
        await put("core/pods", f"team/{name}", spec={"nodeName": node})


def forwarded(pod: str = "web", transit: str = TRANSIT, port: int = 40_000) -> ForwardedConnection:
    dialled = ("169.254.192.9", 8000, "203.0.113.9", 5432)
    return ForwardedConnection(f"team/{pod}", f"uid-{pod}", "TCP", "out", *dialled, transit, port, 10, 20, 1.8e9)


def carried(address: str = "192.0.2.5", transit: str = TRANSIT) -> CarriedConnection:
    return CarriedConnection("TCP", transit, 40_000, "203.0.113.9", 5432, address, 51_000)


async def test_both_ends_of_a_connection_are_put_together(client: Client, nodes: Nodes) -> None:
    nodes.answers = {"dfw-0": NodeConnections([forwarded()]), "dfw-1": NodeConnections([], [carried()])}
    (one,) = (answer := (await client.get(PATH)).json)["connections"]
    assert (one["pod"], one["node"], one["gateway"]) == ("team/web", "dfw-0", "dfw-1")
    assert (one["sourceIP"], one["sourcePort"], one["dialled"]) == ("192.0.2.5", 51_000, "169.254.192.9:8000")
    assert (one["target"], one["bytesOut"], one["bytesIn"]) == ("203.0.113.9:5432", 10, 20)
    assert (answer["silent"], answer["more"]) == ([], False)
    assert nodes.asked == [(node, "/tarmac/v1/external/connections/team/db") for node in ("dfw-0", "dfw-1")]


async def test_a_node_that_cannot_be_heard_is_named_and_the_others_are_shown(client: Client, nodes: Nodes) -> None:
    nodes.answers = {"dfw-0": NodeConnections([forwarded()]), "dfw-1": b""}
    answer = (await client.get(PATH)).json
    assert [(each["pod"], each["sourceIP"]) for each in answer["connections"]] == [("team/web", "")]
    assert answer["silent"] == ["dfw-1"]
    nodes.answers["dfw-1"] = b'{"carried": 7}'
    assert (await client.get(PATH)).json["silent"] == ["dfw-1"]


@pytest.mark.parametrize(
    "extreme",
    [
        {"since": 1e300},
        {"since": 1e12},
        {"bytesOut": 10**400},
        {"bytesIn": -1},
        {"dialledPort": 2**80},
        {"dialled": "x" * 100_000},
        {"transitPort": -1},
        {"target": "1" * 500},
    ],
    ids=lambda extreme: next(iter(extreme)),
)
async def test_extreme_values_of_a_node_hide_its_own_word_only(
    client: Client, nodes: Nodes, extreme: dict[str, Any]
) -> None:
    """Without a check, a time in the year 33658 would fail the whole response."""
    hostile = {**msgspec.to_builtins(forwarded()), **extreme}
    nodes.answers = {"dfw-0": json.dumps({"forwarded": [hostile]}).encode(), "dfw-1": NodeConnections([], [carried()])}
    reply = await client.get(PATH)
    assert (reply.status, reply.json["connections"], reply.json["silent"]) == (200, [], ["dfw-0"])


async def test_a_node_speaks_for_its_own_pods_and_addresses_only(client: Client, nodes: Nodes) -> None:
    strange = [forwarded("far"), forwarded(transit="240.0.0.8")]
    nodes.answers = {
        "dfw-0": NodeConnections([forwarded(), *strange], [carried("192.0.2.6"), carried()]),
        "dfw-1": NodeConnections([forwarded()], [carried("198.51.100.1")]),
    }
    answer = (await client.get(PATH)).json
    assert [(each["node"], each["sourceIP"]) for each in answer["connections"]] == [("dfw-0", "")]


async def test_at_most_a_thousand_are_shown_and_that_there_are_more_is_said(client: Client, nodes: Nodes) -> None:
    nodes.answers = {"dfw-0": NodeConnections([forwarded(port=port) for port in range(1200)], more=True)}
    answer = (await client.get(PATH)).json
    assert (len(answer["connections"]), answer["more"]) == (1000, True)


async def test_of_a_service_that_is_not_there_nobody_is_asked(client: Client, nodes: Nodes) -> None:
    assert (await client.get(PATH.replace("/db/", "/none/"))).status == 404
    assert nodes.asked == []
