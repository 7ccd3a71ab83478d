"""Several servers on one store keep the rules that span many objects, however their writes race."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.identities import NAMESPACE, PROCESS
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, Gone, Invalid
from tarmac.apps.control_plane import STARTING, Address, Chosen, control_plane, local_transport
from tarmac.apps.layout import Layout
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import CONFIG_MAPS, LEASES, NAMESPACES, RESOURCE_QUOTAS, SERVICES
from tarmac.server.admission.default import default_chain
from tarmac.server.app import RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.fairness import Fairness
from tarmac.store.interface import Store
from tests.server.conftest import OpenGates
from tests.store.conftest import EtcdPlace, Place

NETWORKS = dynamic("networking.datumapis.com/v1alpha", "networks", "Network")
PORTS = [{"port": 80}]


class Servers:
    """Two of them, each with its own view of the store, which is one and the same or two on one log."""

    def __init__(self, *stores: Store) -> None:
        self._stores = stores
        self.clients = [_serving(store) for store in stores]

    async def agree(self) -> None:
        """Wait until each server sees the writes of all."""
        for store in self._stores:
            if (fresh := store.fresh()) is not None:
                await fresh
        await asyncio.sleep(0.05)

    async def race(self, target: Any, *objects: JsonObject) -> list[Any]:
        """Create all of them at once, by turns through each server; return the results, errors included."""
        ways = [self.clients[number % 2].resource(target) for number in range(len(objects))]
        creates = [way.create(obj) for way, obj in zip(ways, objects, strict=True)]
        return await asyncio.gather(*creates, return_exceptions=True)


class Unimaginative(Randomness):
    """Every server draws the same number first."""

    def uniform(self, a: float, b: float) -> float:
        return a


def _serving(store: Store) -> Client:
    clock, randomness, catalog, reader = SystemClock(), Unimaginative(), build_catalog(), Reader(store)
    authorizer, gates = Authorizer(store), OpenGates()
    chain = default_chain(reader, catalog, clock, randomness, authorizer)
    parts = ServerParts(
        store,
        catalog,
        RequestGates(gates, gates, Fairness(), gates),
        chain,
        clock,
        randomness,
        reviews=gates,
        issuer=gates,
    )
    return Client(local_transport(assemble(parts), STARTING))


@pytest.fixture
async def servers(place: Place) -> Servers:
    """Every driver: a local one is shared as it is, etcd is opened twice."""
    first = await place.open()
    made = Servers(first, await place.open() if first.shared else first)
    await made.clients[0].resource(NAMESPACES).create({"metadata": {"name": "team"}})
    await made.agree()
    return made


def named(name: str, **content: Any) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "team"}, **content}


async def test_the_controllers_of_one_server_work_until_it_stops(etcd_place: EtcdPlace, tmp_path: Path) -> None:
    url = f"etcd://{','.join(etcd_place.settings.endpoints)}?prefix={etcd_place.settings.prefix}"
    shared = (tmp_path / "pki", tmp_path / "secrets.key", url)
    one, two = (
        control_plane(Layout(tmp_path / name, *shared), Address("127.0.0.1", 0), Chosen("network"))
        for name in ("one", "two")
    )
    async with AsyncExitStack() as first:
        await _has_network(Client(local_transport((await first.enter_async_context(one)).server, STARTING)), "default")
        async with two as running:
            user = Client(local_transport(running.server, STARTING))
            leader = await _leader(user)
            await user.resource(NAMESPACES).create({"metadata": {"name": "team"}})
            await _has_network(user, "team")
            assert await _leader(user) == leader
            await first.aclose()
            await user.resource(NAMESPACES).create({"metadata": {"name": "later"}})
            await _has_network(user, "later")
            assert await _leader(user) != leader
    made = {name: _networks_made(tmp_path / name / "audit.log") for name in ("one", "two")}
    assert "team" in made["one"]
    assert made["two"] == {"later"}


def _networks_made(log: Path) -> set[str]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    made = [each["objectRef"] for each in lines if each["verb"] == "create" and each["responseStatus"]["code"] == 201]
    return {each["namespace"] for each in made if each["resource"] == "networks"}


async def _leader(user: Client) -> str:
    return (await user.resource(LEASES).get(PROCESS, NAMESPACE))["spec"]["holderIdentity"]


async def _has_network(user: Client, namespace: str) -> None:
    """The controllers create one in every namespace."""
    async with asyncio.timeout(40):
        while not (await user.resource(NETWORKS).list(namespace)).items:
            await asyncio.sleep(0.05)


async def test_reviews_and_tokens_are_answered_over_every_store(servers: Servers) -> None:
    """Reviews and token requests are stored nowhere, and answered at once."""
    json_body = {"content-type": "application/json"}
    for path in (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/api/v1/namespaces/team/serviceaccounts/any/token",
    ):
        answer = await servers.clients[0].call("POST", path, None, b"{}", json_body)
        assert json.loads(answer.body)["status"]


async def test_the_last_place_of_a_quota_is_given_once(servers: Servers) -> None:
    one, other = servers.clients
    await one.resource(RESOURCE_QUOTAS).create(named("limit", spec={"hard": {"configmaps": "5"}}))
    await servers.agree()
    outcomes = await servers.race(CONFIG_MAPS, *(named(f"map-{number}") for number in range(16)))
    refused = [each for each in outcomes if isinstance(each, Forbidden)]
    assert len(refused) == 11, Counter(type(each).__name__ for each in outcomes)
    assert all("exceeded quota: limit" in str(each) for each in refused)
    assert len((await other.resource(CONFIG_MAPS).list("team")).items) == 5
    made = next(each for each in outcomes if isinstance(each, dict))
    await other.resource(CONFIG_MAPS).delete(made["metadata"]["name"], "team")
    await servers.agree()
    again = await servers.race(CONFIG_MAPS, named("first"), named("second"))
    assert sorted(type(each).__name__ for each in again) == ["Forbidden", "dict"]


async def test_a_quota_shows_what_was_created_when_the_create_returns(servers: Servers) -> None:
    one, other = servers.clients
    await one.resource(RESOURCE_QUOTAS).create(
        named("limit", spec={"hard": {"configmaps": "100", "services.nodeports": "9"}})
    )
    await servers.agree()

    async def create(number: int) -> int:
        way = servers.clients[number % 2]
        await way.resource(CONFIG_MAPS).create(named(f"map-{number}"))
        return int((await way.resource(RESOURCE_QUOTAS).get("limit", "team"))["status"]["used"]["configmaps"])

    assert [await create(number) for number in range(20)] == list(range(1, 21))
    seen = await asyncio.gather(*(create(number) for number in range(20, 36)))
    assert max(seen) == 36
    assert all(own >= rank for rank, own in enumerate(sorted(seen), start=21)), seen
    service = await other.resource(SERVICES).create(named("web", spec={"ports": PORTS}))
    service["spec"]["type"] = "NodePort"
    await other.resource(SERVICES).update(service)
    assert (await other.resource(RESOURCE_QUOTAS).get("limit", "team"))["status"]["used"]["services.nodeports"] == "1"


async def test_a_quota_of_quotas_counts_each_once(servers: Servers) -> None:
    one, other = servers.clients
    for name in ("a", "b"):
        await one.resource(RESOURCE_QUOTAS).create(
            named(name, spec={"hard": {"resourcequotas": "9", "configmaps": "9"}})
        )
        await one.resource(CONFIG_MAPS).create(named(f"map-{name}"))
    objects = [named(name, spec={"hard": {"count/resourcequotas": "9", "configmaps": "9"}}) for name in "cd"]
    await asyncio.gather(servers.race(RESOURCE_QUOTAS, *objects), servers.race(CONFIG_MAPS, named("c"), named("d")))
    await servers.agree()
    for quota in (await other.resource(RESOURCE_QUOTAS).list("team")).items:
        assert set(quota["status"]["used"].values()) == {"4"}, quota


async def test_foreign_writes_to_quota_status_are_corrected(servers: Servers) -> None:
    one, other = servers.clients
    await one.resource(RESOURCE_QUOTAS).create(named("limit", spec={"hard": {"configmaps": "5"}}))
    await one.resource(RESOURCE_QUOTAS).create(named("empty", spec={}))
    await one.resource(CONFIG_MAPS).create(named("map"))
    await servers.agree()
    for status in ({"hard": {"configmaps": "1000"}, "used": {"configmaps": "77"}}, {}):
        quota = await other.resource(RESOURCE_QUOTAS).get("limit", "team")
        await other.resource(RESOURCE_QUOTAS).update({**quota, "status": status}, subresource="status")
        await servers.agree()
        for way in servers.clients:
            found = await way.resource(RESOURCE_QUOTAS).get("limit", "team")
            assert found["status"] == {"hard": {"configmaps": "5"}, "used": {"configmaps": "1"}}
    before = (await one.resource(RESOURCE_QUOTAS).list("team")).resource_version
    await servers.agree()
    assert (await one.resource(RESOURCE_QUOTAS).list("team")).resource_version == before, "written over and over"


async def test_no_two_services_get_the_same_address_or_port(servers: Servers) -> None:
    services = [named(f"web-{number}", spec={"type": "NodePort", "ports": PORTS}) for number in range(12)]
    made = await servers.race(SERVICES, *services)
    assert not [each for each in made if isinstance(each, Exception)]
    assert len({each["spec"]["clusterIP"] for each in made}) == 12
    assert len({each["spec"]["ports"][0]["nodePort"] for each in made}) == 12


@pytest.mark.parametrize("spec", [{"clusterIP": "10.96.0.10"}, {"type": "NodePort"}], ids=["address", "port"])
async def test_one_of_two_services_gets_a_contended_address_or_port(servers: Servers, spec: JsonObject) -> None:
    ports = [{"port": 80, "nodePort": 30080}] if spec.get("type") else PORTS
    outcomes = await servers.race(SERVICES, *(named(name, spec={**spec, "ports": ports}) for name in "ab"))
    assert sorted(type(each).__name__ for each in outcomes) == [Invalid.__name__, "dict"]
    (refused,) = [each for each in outcomes if isinstance(each, Invalid)]
    assert "already allocated" in str(refused)


async def test_a_watch_goes_on_at_another_server_which_may_be_behind(servers: Servers) -> None:
    """A watch that moves to a server that may be behind gets every change once, and never a 410."""
    here, there = (each.resource(CONFIG_MAPS) for each in servers.clients)
    for number in range(20):
        made = await here.create(named(f"before-{number}"))
        async with there.watch("team", resource_version=made["metadata"]["resourceVersion"]) as watch:
            await here.create(named(f"after-{number}"))
            async for event in watch:
                assert json.loads(event.raw)["metadata"]["name"] == f"after-{number}"
                break


async def test_a_watch_from_a_revision_of_another_store_is_told_so(servers: Servers) -> None:
    ahead = (await servers.clients[0].resource(CONFIG_MAPS).list("team")).resource_version
    for client in servers.clients:
        with pytest.raises(Gone, match="too large resource version"):
            await _first(client, str(int(ahead) + 10**6))


async def _first(client: Client, revision: str) -> None:
    async with client.resource(CONFIG_MAPS).watch("team", resource_version=revision) as watch:
        async for _ in watch:
            return
