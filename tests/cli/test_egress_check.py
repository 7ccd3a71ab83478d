"""`tarmac egress check`: commands in a pod open real connections, which are found among the live ones, and judged."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.egress.connections import CarriedConnection, ForwardedConnection, NodeConnections
from tarmac.api.egress.externalservice import ServiceReference, SourceStatus
from tarmac.api.egress.names import LABEL_EXTERNAL_SERVICE, LABEL_NAMESPACE, NAMESPACE, forwarder_name
from tarmac.api.status import NotFound
from tarmac.apps.main import main
from tarmac.cli.egress import checking
from tarmac.cli.egress.check import egress_check
from tarmac.cli.egress.sourcepods import sources_of
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.typed import EXTERNAL_SERVICES, FORWARDERS, GATEWAYS
from tarmac.client.targets.untyped import ENDPOINT_SLICES, PODS
from tests.cli.test_verbs_on_a_planet import WithoutSubresources
from tests.server.streams.planet import Planet, planet

TRANSIT, SOURCE = "240.0.0.7", "192.0.2.200"
TARGET = ("192.0.2.139", 5432)


class Outside:
    """A server outside, and the node's report of its connections: with any address, or none."""

    def __init__(self) -> None:
        self.port = 0
        self.seen_as = SOURCE
        self.answers = True
        self.dialled: list[tuple[str, int]] = []
        self.uid = ""
        self.asked = 0
        self.old: list[tuple[str, int]] = []  # earlier connections of the pod

    async def serve(self) -> asyncio.Server:
        async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.dialled.append(writer.get_extra_info("peername"))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(met, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def connections(self, namespace: str, name: str) -> NodeConnections:
        assert (namespace, name) == ("default", "db")
        self.asked += 1
        every, back = [*self.old, *self.dialled], 9 if self.answers else 0
        forwarded = [
            ForwardedConnection(
                "default/web", self.uid, "TCP", "out", "127.0.0.1", self.port, *TARGET, TRANSIT, port, 9, back
            )
            for _, port in every
        ]
        carried = [CarriedConnection("TCP", TRANSIT, port, *TARGET, self.seen_as, port) for _, port in every]
        return NodeConnections(forwarded, carried if self.seen_as else [])


class Desk:
    """A user with a command line, and the server of a kubeconfig."""

    def __init__(self, world: Planet, outside: Outside) -> None:
        self.world, self.outside = world, outside
        self.connection = load(str(world.kubeconfig))
        self.client = Client(HttpTransport(self.connection.http))
        self.out = io.StringIO()

    async def check(self, name: str = "db", pod: str = "", output: str = "json", client: Client | None = None) -> int:
        self.out.truncate(self.out.seek(0))
        console = Console(self.out, io.StringIO())
        return await egress_check(client or self.client, self.connection.http, "default", name, pod, console, output)

    @property
    def sources(self) -> list[dict[str, Any]]:
        return json.loads(self.out.getvalue())["sources"]

    async def put(self, sources: list[dict[str, Any]], protocol: str = "TCP", **more: Any) -> None:
        """Store an ExternalService with a status as the controller writes it."""
        services = self.client.resource(EXTERNAL_SERVICES.typed(dict))
        spec = {
            "targetIP": TARGET[0],
            "ports": [{"port": TARGET[1], "targetPort": self.outside.port, "protocol": protocol}],
            "sources": [{"service": each["service"], "sourceIPClaim": {"name": "c"}} for each in sources],
        }
        made = await services.create({**_head(EXTERNAL_SERVICES, "db", "default"), "spec": spec})
        made["status"] = {"addresses": ["127.0.0.1"], "sources": sources, **more}
        await services.update(made, subresource="status")


def _head(target: Any, name: str, namespace: str, **metadata: Any) -> dict[str, Any]:
    own = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": target.api_version, "kind": target.kind, "metadata": own}


def good(name: str = "web") -> dict[str, Any]:
    return {"service": {"name": name, "namespace": "default"}, "sourceIPs": [SOURCE], "podsMatched": 1,
            "podsProgrammed": 1}  # fmt: skip


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """Yield a Service `web` with one pod, whose node n1 is both forwarder and gateway."""
    monkeypatch.setattr(checking, "TIMEOUT", 20.0)  # a check ends as soon as it has seen the connection
    outside = Outside()
    server = await outside.serve()
    try:
        async with planet(tmp_path, external=outside.connections) as world:
            made = Desk(world, outside)
            outside.uid = (await made.client.resource(PODS).get("web", "default"))["metadata"]["uid"]
            await _relays(made.client)
            yield made
            await made.client.close()
    finally:
        server.close()
        await server.wait_closed()


async def add_slice(client: Client, name: str) -> None:
    """Store the endpoint of a Service: a pod of the same name."""
    labels = {"kubernetes.io/service-name": name}
    behind = {"kind": "Pod", "name": name, "namespace": "default"}
    endpoint = {"addresses": ["10.128.0.2"], "nodeName": "n1", "targetRef": behind, "conditions": {"ready": True}}
    slices = {"addressType": "IPv4", "endpoints": [endpoint], "ports": []}
    made = {**_head(ENDPOINT_SLICES, f"{name}-1", "default", labels=labels), **slices}
    await client.resource(ENDPOINT_SLICES).create(made)


async def _relays(client: Client) -> None:
    await add_slice(client, "web")
    own = {LABEL_NAMESPACE: "default", LABEL_EXTERNAL_SERVICE: "db"}
    rules = [{"transitip": TRANSIT, "gateway": {"name": SOURCE}}]
    await client.resource(FORWARDERS.typed(dict)).create({
        **_head(FORWARDERS, forwarder_name("default", "db", "n1"), NAMESPACE, labels=own),
        "spec": {"nodeName": "n1", "egressrules": rules},
    })  # fmt: skip
    gateways = client.resource(GATEWAYS.typed(dict))
    gateway = await gateways.create({**_head(GATEWAYS, SOURCE, NAMESPACE), "spec": {"gatewayip": SOURCE}})
    gateway["status"] = {"nodes": [{"name": "n1", "owner": True}]}
    await gateways.update(gateway, subresource="status")


async def test_a_source_that_is_seen_as_it_should_be(desk: Desk) -> None:
    await desk.put([good()])
    desk.outside.old = [("10.128.0.2", 1)]
    assert await desk.check("extsvc/db", output="text") == 0
    header, row = desk.out.getvalue().splitlines()
    assert header.split() == ["SOURCE", "POD", "NODE", "GATEWAY", "SEEN-AS", "EXPECTED", "RESULT"]
    assert row.split() == ["default/web", "default/web", "n1", "n1", SOURCE, SOURCE, "OK"]
    assert len(desk.outside.dialled) == 1, "one connection was really opened"
    assert await desk.check(pod="web") == 0
    (found,) = desk.sources
    assert found["seenPort"] == desk.outside.dialled[-1][1], "the new connection counts, not an earlier one"


async def test_on_an_api_server_of_kubernetes_the_nodes_are_asked(desk: Desk) -> None:
    await desk.put([good()])
    elsewhere = WithoutSubresources(desk.client.transport)
    assert await desk.check(client=Client(elsewhere, desk.client.clock)) == 0
    assert elsewhere.refused > 0
    assert [(each["result"], each["seenAs"]) for each in desk.sources] == [("OK", SOURCE)]


async def test_a_failed_check_exits_nonzero_and_names_the_cause(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "TIMEOUT", 3.0)  # each of these waits for the timeout
    await desk.put([good()])
    desk.outside.answers = False
    assert await desk.check() == 1
    (found,) = desk.sources
    assert found["result"] == "NoAnswer"
    assert found["message"] == f"It leaves as {SOURCE}, and 192.0.2.139:5432 does not answer."
    for unknown in ("", "192.0.2.66"):  # a node's report of an address that it does not carry does not count
        desk.outside.answers, desk.outside.seen_as = True, unknown
        assert await desk.check() == 1
        (found,) = desk.sources
        assert (found["result"], found["node"], found["gateway"]) == ("NoGateway", "n1", "")


async def test_an_address_that_was_not_promised_fails(desk: Desk) -> None:
    await desk.put([{**good(), "sourceIPs": ["192.0.2.77"]}])
    assert await desk.check() == 1
    (found,) = desk.sources
    assert (found["result"], found["seenAs"], found["expected"]) == ("WrongSource", SOURCE, "192.0.2.77")
    assert found["message"] == f"192.0.2.139:5432 sees {SOURCE} instead of 192.0.2.77."


async def test_a_refused_connection_is_told_with_the_tools_own_words(desk: Desk) -> None:
    await desk.put([good()], addresses=["127.0.0.9"])
    assert await desk.check(output="text") == 1
    shown = desk.out.getvalue()
    assert "Refused" in shown
    assert "could not be dialled" in shown
    assert "refused" in shown.partition("could not be dialled")[2].lower()


async def test_without_a_tool_nothing_is_proven(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    await desk.put([good()])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await desk.check() == 1
    (found,) = desk.sources
    assert (found["result"], found["message"]) == (
        "NoTool",
        "Not proven: the image has none of nc, python3 and bash.",
    )
    assert desk.outside.dialled == []


async def test_sources_that_cannot_work_are_told_and_the_others_are_tried(desk: Desk) -> None:
    refused = {"service": {"name": "other", "namespace": "shop"}, "reason": "NotGranted", "message": "Not granted."}
    await add_slice(desk.client, "ghost")
    await desk.put([refused, good(), good("nobody"), good("ghost")])
    assert await desk.check() == 1
    assert [(each["source"], each["result"]) for each in desk.sources] == [
        ("shop/other", "NotGranted"),
        ("default/web", "OK"),
        ("default/nobody", "NoPods"),
        ("default/ghost", "NotFound"),  # the pod is gone, so no command can run
    ]


async def test_before_there_is_an_address_and_for_what_nothing_speaks(desk: Desk) -> None:
    await desk.put([good()], addresses=[])
    assert await desk.check() == 1
    assert [each["result"] for each in desk.sources] == ["NoAddress"]
    await desk.client.resource(EXTERNAL_SERVICES).delete("db", "default")
    await desk.put([good()], protocol="SCTP")
    assert await desk.check() == 1
    assert [each["result"] for each in desk.sources] == ["NoTool"]


async def test_names_that_lead_nowhere(desk: Desk) -> None:
    await desk.put([good()])
    with pytest.raises(NotFound):
        await desk.check("nothing")
    with pytest.raises(NotFound, match="pod default/stranger stands behind none of the sources"):
        await desk.check(pod="stranger")
    with pytest.raises(BadObject, match="names no ExternalService"):
        await desk.check("pod/db")
    config = ["--kubeconfig", str(desk.world.kubeconfig)]
    assert await asyncio.to_thread(main, ["egress", "check", "pod/db", *config]) == 2


async def test_a_pod_of_two_sources_stands_for_the_first(desk: Desk) -> None:
    spec = EXTERNAL_SERVICES.decode(json.dumps({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"targetIP": TARGET[0], "ports": [{"port": 1}], "sources": [
            {"service": {"name": "web"}}, {"service": {"name": "web"}, "location": "dfw"}]},
    }).encode())  # fmt: skip
    first, second = await sources_of(desk.client, spec)
    assert [each.name for each in first.pods] == ["default/web"]
    assert second.pods == []
    assert first.status == SourceStatus(ServiceReference("web"))
