"""Simulated nodes forward and carry addresses, by the lease machines of real nodes, through the loss of a gateway."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import SERVICES as CORE_SERVICES
from tarmac.sim.nodes.settings import SimLocation
from tests.controllers.cities import DFW, LHR, Cities, condition, play, pod
from tests.controllers.test_source_ip_claims import CLAIMS, CLASSES, SERVICES, SOURCE_IPS, address_class, claim, made

ALL = "external,service,network,scheduler,node"
ADDRESS = "192.168.122.200"


async def prepare(cities: Cities, *gateways: str) -> None:
    """Create labelled gateways, a class on their segment, a claim, a Service with two pods, and the ExternalService."""
    for node in gateways:
        await cities.nodes.patch(node, {"metadata": {"labels": {"submariner.io/gateway": "true"}}})
    offered = address_class(ranges=[{"cidr": "192.168.122.192/27"}], inbound={"policy": "FromTarget"})
    await cities.user.resource(CLASSES).create(offered)
    await cities.user.resource(CLAIMS).create(claim("c", address=ADDRESS))
    metadata = {"name": "web", "namespace": "default"}
    spec: JsonObject = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    await cities.user.resource(CORE_SERVICES).create(service)
    for number in range(2):
        await cities.pods.create(pod(f"web-{number}", place="dfw", labels={"app": "web"}))
    sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}]
    wanted = {"targetIP": "203.0.113.9", "sources": sources, "ports": [{"port": 5432, "targetPort": 8000}]}
    await cities.user.resource(SERVICES).create(made("ExternalService", "db", wanted, "default"))


async def ready(cities: Cities) -> bool:
    found = await cities.user.resource(SERVICES).get("db", "default")
    return condition(found, "Ready").get("status") == "True"


async def seen(cities: Cities, name: str = "web-0") -> str:
    found = await cities.pods.get(name, "default")
    return cities.fleet.relays.seen("default/db", found["metadata"]["uid"], found["spec"].get("nodeName", ""))


def test_a_service_works_on_simulated_nodes_from_the_first_label_on() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        assert await seen(cities) == await seen(cities, "web-1") == ADDRESS
        owner = (await cities.user.resource(SOURCE_IPS).get(ADDRESS))["status"]["owner"]["gateway"]
        assert owner == cities.fleet.relays.leases.carrier(ADDRESS)
        await cities.user.resource(SERVICES).delete("db", "default")
        await cities.until(lambda: cities.gone(cities.user.resource(SERVICES), "db", "default"))
        await cities.wait(5)
        assert (await seen(cities), cities.fleet.relays.leases.carrier(ADDRESS)) == ("", "")
        assert cities.fleet.relays.leases.broken == []

    play(ALL, story, external=True)


def test_a_gateway_that_is_lost_is_followed_by_another_within_three_seconds() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        assert "lastFailover" not in (await cities.user.resource(SOURCE_IPS).get(ADDRESS))["status"]
        cities.fleet.die(first)
        assert leases.carrier(ADDRESS) == ""
        await cities.wait(3)
        second = leases.carrier(ADDRESS)
        assert second not in ("", first)
        cities.fleet.revive(first)
        await cities.wait(30)
        assert leases.carrier(ADDRESS) == second, "it does not go back by itself"
        await cities.until(lambda: ready(cities), 120)
        status = (await cities.user.resource(SOURCE_IPS).get(ADDRESS))["status"]
        assert (status["owner"]["gateway"], leases.broken) == (second, [])
        assert status["lastFailover"] == status["owner"]["since"]

    play(ALL, story, external=True)


def test_a_city_that_is_lost_with_most_gateways_leaves_the_address_to_another_city() -> None:
    """Votes on it are spread over cities, also to one that could not carry it."""

    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1", "lhr-0")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        for node in ("dfw-0", "dfw-1"):
            cities.fleet.die(node)
        await cities.wait(3)
        assert (leases.carrier(ADDRESS), leases.broken) == ("lhr-0", [])

    play(ALL, story, (DFW, LHR, SimLocation("sea", "SEA", 1)), external=True)


def test_a_gateway_that_is_cut_off_goes_silent_before_another_takes_over() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "lhr-0")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        cities.fleet.cut(first)
        other = "lhr-0" if first == "dfw-0" else "dfw-0"
        held = [leases.carrier(ADDRESS)]
        for _ in range(60):
            await cities.wait(0.05)
            held.append(leases.carrier(ADDRESS))
        assert set(held) <= {first, "", other}
        assert leases.broken == []

    play(ALL, story, external=True)


def test_a_cordoned_gateway_hands_over_at_once() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        await cities.nodes.patch(first, {"spec": {"unschedulable": True}})
        await cities.wait(6)
        assert leases.carrier(ADDRESS) not in ("", first)
        assert leases.broken == []

    play(ALL, story, external=True)


def test_a_cordoned_gateway_that_holds_on_is_replaced_after_a_minute_and_never_two_carry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stolen gateway reports no partner, so no handover of connections ever comes about."""

    async def story(cities: Cities) -> None:
        reports = cities.fleet.relays._owning
        apply = reports.apply

        async def without_partner(body: JsonObject, **flags: Any) -> None:
            (entry,) = body["status"]["nodes"]
            entry.pop("syncedWith", None)
            await apply(body, **flags)

        monkeypatch.setattr(reports, "apply", without_partner)
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        await cities.nodes.patch(first, {"spec": {"unschedulable": True}})
        await cities.wait(50)
        assert leases.carrier(ADDRESS) == first
        await cities.wait(20)
        assert leases.carrier(ADDRESS) not in ("", first)
        assert leases.broken == []

    play(ALL, story, external=True)


def test_an_agent_that_ends_leaves_its_address_to_another_when_its_lease_ends() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        cities.fleet.end_agent(first)
        assert leases.carrier(ADDRESS) == first, "the kernel continues until the lease ends"
        await cities.wait(3)
        second = leases.carrier(ADDRESS)
        assert second not in ("", first)
        cities.fleet.start_agent(first)
        await cities.wait(20)
        assert (leases.carrier(ADDRESS), leases.broken) == (second, [])
        await cities.until(lambda: ready(cities), 120)

    play(ALL, story, external=True)


def test_an_agent_that_starts_at_once_does_not_renew_what_its_earlier_life_was_promised() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, "dfw-0", "dfw-1")
        await cities.until(lambda: ready(cities))
        leases = cities.fleet.relays.leases
        first = leases.carrier(ADDRESS)
        cities.fleet.end_agent(first)
        await cities.wait(0.2)
        cities.fleet.start_agent(first)
        await cities.wait(8)
        assert leases.carrier(ADDRESS) != ""
        assert leases.broken == []

    play(ALL, story, external=True)
