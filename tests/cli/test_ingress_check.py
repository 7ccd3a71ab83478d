"""`tarmac ingress check` connects to the addresses of a Service from every node, and prints which of them fail."""

from __future__ import annotations

import io
import json
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from tarmac.api.ingress.names import ANNOTATION_ADDRESSES
from tarmac.api.ingress.nodechecks import NodeIngressCheck
from tarmac.api.status import NotFound
from tarmac.cli.ingress.ingresscheck import ingress_check
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.targets.untyped import SERVICES
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tests.controllers.cities import Cities
from tests.controllers.test_public_addresses import POOLS, gateway, pool, report, service, told

ADDRESS = "203.0.113.5"
MISSING = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no"}'


class NodesBehind:
    """A server whose nodes answer checks, each as told; a node that is not told has no rules."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.told: dict[str, NodeIngressCheck] = {}
        self.asked: list[str] = []

    async def request(self, request: ClientRequest) -> Reply:
        if "/proxy/tarmac/v1/ingress/check/" not in request.path:
            return await self._inner.request(request)
        node, _, rest = request.path.removeprefix("/api/v1/nodes/").partition("/proxy")
        assert rest == f"/tarmac/v1/ingress/check/{ADDRESS}/80"
        self.asked.append(node)
        found = self.told.get(node)
        return Reply(404, {}, MISSING) if found is None else Reply(200, {}, msgspec.json.encode(found))

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def check(cities: Cities, nodes: NodesBehind, name: str = "web", city: str = "") -> tuple[int, dict[str, str]]:
    """Return the exit code, and the result by node."""
    out, client = io.StringIO(), Client(nodes, cities.user.clock)
    code = await ingress_check(client, "default", name, city, Console(out, io.StringIO()), "json")
    found = json.loads(out.getvalue())
    assert found["ok"] == (code == 0)
    return code, {each["client"]: each["result"] for each in found["results"]}


async def announced(cities: Cities) -> NodesBehind:
    """Create a Service at an address that dfw-0 announces."""
    await gateway(cities)
    await cities.user.resource(POOLS).create(pool())
    await cities.user.resource(SERVICES).create(service(annotations={ANNOTATION_ADDRESSES: ADDRESS}))
    await cities.wait(3)
    await report(cities, ADDRESS, {"name": "dfw-0", "announcing": True})
    await cities.wait(3)
    return NodesBehind(cities.user.transport)


def test_every_node_connects_and_failures_decide_about_the_exit_code() -> None:
    async def story(cities: Cities) -> None:
        nodes = await announced(cities)
        names = [each["metadata"]["name"] for each in (await cities.nodes.list()).items]
        nodes.told = {name: NodeIngressCheck(seconds=0.001, seen_as="240.0.0.1") for name in names}
        assert await check(cities, nodes) == (0, dict.fromkeys(names, "OK"))
        nodes.told["dfw-0"] = NodeIngressCheck("source ranges leave the node out", True)
        assert (await check(cities, nodes))[0] == 0, "nothing is proven, and nothing is wrong"
        nodes.told["lhr-0"] = NodeIngressCheck("Connection refused")
        del nodes.told["dfw-1"]
        code, found = await check(cities, nodes)
        assert (code, found["dfw-0"], found["lhr-0"], found["dfw-1"]) == (1, "Closed", "Failed", "NoRules")
        nodes.asked.clear()
        await check(cities, nodes, city="lhr")
        assert set(nodes.asked) == {name for name in names if name.startswith("lhr")}

    told(story)


def test_the_table_names_the_gateway_that_announces() -> None:
    async def story(cities: Cities) -> None:
        nodes = await announced(cities)
        nodes.told = {"dfw-0": NodeIngressCheck(seen_as="240.0.0.1", nodes=["192.0.2.77"])}
        out, client = io.StringIO(), Client(nodes, cities.user.clock)
        await ingress_check(client, "default", "svc/web", "DFW", Console(out, io.StringIO()), "text")
        head, first, *_ = out.getvalue().splitlines()
        assert head.split() == ["ADDRESS", "CLIENT", "CITY", "ANNOUNCES", "ENDPOINTS", "SEEN-AS", "RESULT"]
        assert first.split() == [ADDRESS, "dfw-0", "DFW", "yes", "192.0.2.77", "240.0.0.1", "OK"]

    told(story)


def test_names_without_an_address_or_node_are_refused_with_the_reason() -> None:
    async def story(cities: Cities) -> None:
        nodes = await announced(cities)
        with pytest.raises(BadObject, match="svc/NAME or workload/NAME"):
            await check(cities, nodes, "pod/web")
        with pytest.raises(NotFound, match="no Ready node is in OSL"):
            await check(cities, nodes, city="osl")
        await cities.user.resource(SERVICES).create(service("quiet", type="ClusterIP"))
        with pytest.raises(NotFound, match="shows no public address"):
            await check(cities, nodes, "quiet")

    told(story)
