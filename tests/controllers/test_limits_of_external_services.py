"""Rules beyond the size of a Forwarder or Gateway: the server refuses them, or condition and `why` name the limit."""

from __future__ import annotations

import pytest

from tarmac.api.egress.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tests.controllers.cities import Cities, condition, play
from tests.controllers.test_external_services import ALL, CLASSES, SERVICES, acknowledge, external, prepare

PORTS = [{"name": f"p{n}", "port": n} for n in range(1, 65)]


async def why(cities: Cities, name: str) -> JsonObject:
    return await cities.user.get_json(f"/apis/{API_VERSION}/namespaces/default/externalservices/{name}/why")


async def settle(cities: Cities) -> None:
    for _ in range(3):
        await cities.wait(4)
        await acknowledge(cities)
    await cities.wait(4)


async def check_limit(cities: Cities, name: str, number: str, remedy: str) -> None:
    """Check that the condition and `why` name the number, the limit and the remedy."""
    ready = condition(await cities.user.resource(SERVICES).get(name, "default"), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "TooManyRules")
    answer = await why(cities, name)
    (line,) = [each for each in answer["verdicts"] if each["reason"] == "TooManyRules"]
    for message in (ready["message"], line["message"]):
        assert number in message
        assert "the limit is 19500" in message
    assert remedy in ready["message"]
    assert remedy in line["change"]
    assert remedy in answer["change"]


def test_more_ports_and_sources_than_a_forwarder_holds_are_refused_by_the_server() -> None:
    async def story(cities: Cities) -> None:
        sources = [{"service": {"name": f"web-{n}"}, "sourceIPClaim": {"name": "c"}} for n in range(24)]
        with pytest.raises(Invalid, match="64 ports for 24 sources are 1536 rules"):
            await cities.user.resource(SERVICES).create(external(ports=PORTS, sources=sources))
        await cities.user.resource(SERVICES).create(external(ports=PORTS, sources=sources[:23]))

    play("", story)


def test_more_pods_on_a_node_than_its_forwarder_holds_are_named_with_the_limit_and_the_remedy() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, pods=75)
        await cities.user.resource(SERVICES).create(external(ports=PORTS))
        await settle(cities)
        await check_limit(cities, "db", "Pods need rules of ", "spread the Pods over more nodes")

    play(ALL, story)


def test_a_shared_address_whose_gateway_is_full_is_named_with_the_limit_and_the_remedy() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, pods=6)
        await cities.user.resource(CLASSES).patch("partner", {"spec": {"sharing": "Namespace"}})
        for number in range(14):
            await cities.user.resource(SERVICES).create(
                external(f"db-{number}", targetIP=f"203.0.113.{number + 10}", ports=PORTS)
            )
            await settle(cities)
        await check_limit(cities, "db-13", "Address 192.0.2.5: its Gateway would have ", "Claim another address")
        works = condition(await cities.user.resource(SERVICES).get("db-0", "default"), "Ready")
        assert works["status"] == "True"

    play(ALL, story)
