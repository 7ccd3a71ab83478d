"""Each cluster address has an IPAddress that follows its Service, and one ServiceCIDR is their range."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from tests.controllers.cities import Cities, play
from tests.controllers.test_endpoints_of_services import service

NAMES = "serviceaddress"


async def addresses(cities: Cities) -> dict[str, JsonObject]:
    found = (await cities.user.resource(IP_ADDRESSES).list()).items
    return {each["metadata"]["name"]: each for each in found}


def parent(name: str) -> JsonObject:
    return {"parentRef": {"resource": "services", "namespace": "default", "name": name}}


async def own(cities: Cities, name: str) -> set[str]:
    return {address for address, each in (await addresses(cities)).items() if each["spec"] == parent(name)}


def test_each_address_of_a_service_has_an_object_until_the_service_is_deleted() -> None:
    async def story(cities: Cities) -> None:
        services: Any = cities.user.resource(SERVICES)
        made = await services.create(service(ipFamilyPolicy="PreferDualStack"))
        await services.create(service("headless", clusterIP="None"))
        await cities.wait(2)
        assert await own(cities, "web") == set(made["spec"]["clusterIPs"])
        assert await own(cities, "headless") == set()
        four, six = made["spec"]["clusterIPs"]
        found = await addresses(cities)
        families = [found[each]["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"] for each in (four, six)]
        assert families == ["IPv4", "IPv6"]
        await cities.user.resource(IP_ADDRESSES).delete(four)
        await cities.wait(2)
        assert await own(cities, "web") == {four, six}
        await services.delete("web", "default")
        await cities.wait(2)
        assert await own(cities, "web") == set()

    play(NAMES, story)


def test_an_address_passes_to_the_next_service_that_holds_it() -> None:
    async def story(cities: Cities) -> None:
        services: Any = cities.user.resource(SERVICES)
        address = (await services.create(service("a")))["spec"]["clusterIP"]
        await cities.wait(2)
        await services.delete("a", "default")
        await services.create(service("b", clusterIP=address))
        await cities.wait(2)
        assert await own(cities, "b") == {address}
        assert await own(cities, "a") == set()

    play(NAMES, story)


def test_addresses_that_users_write_are_left_alone() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(IP_ADDRESSES).create({"metadata": {"name": "192.0.2.1"}, "spec": parent("none")})
        await cities.wait(5)
        assert "192.0.2.1" in await addresses(cities)

    play(NAMES, story)


def test_only_the_first_service_cidr_gives_out_addresses() -> None:
    async def story(cities: Cities) -> None:
        ranges = cities.user.resource(SERVICE_CIDRS)
        await ranges.create({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await cities.wait(2)
        for name, wanted in (("kubernetes", ("True", "Offered")), ("more", ("False", "NotOffered"))):
            (condition,) = (await ranges.get(name))["status"]["conditions"]
            assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", *wanted)
        (first,) = [each for each in (await ranges.list()).items if each["metadata"]["name"] == "kubernetes"]
        assert first["spec"]["cidrs"] == ["10.96.0.0/12", "fd00:96::/112"]
        before = first["metadata"]["resourceVersion"]
        await cities.wait(60)
        assert (await ranges.get("kubernetes"))["metadata"]["resourceVersion"] == before

    play(NAMES, story)
