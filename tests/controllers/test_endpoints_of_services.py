"""The EndpointSlices of a Service follow its pods and its selector, and are deleted with it."""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import ENDPOINT_SLICES, EVENTS, NODES, SERVICES
from tests.controllers.cities import Cities, play, pod

NAMES = "scheduler,node,network,service"


def service(name: str = "web", **spec: Any) -> JsonObject:
    content = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"team": "a"}},
        "spec": content,
    }


async def slices(cities: Cities, name: str = "web") -> list[JsonObject]:
    return (
        await cities.user.resource(ENDPOINT_SLICES).list("default", labels=f"kubernetes.io/service-name={name}")
    ).items


def targets(found: list[JsonObject]) -> list[str]:
    endpoints = (each for one in found for each in one.get("endpoints") or ())
    return sorted(each["targetRef"]["name"] for each in endpoints if each["conditions"]["ready"])


def test_pods_are_found_by_labels_on_every_family() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service(ipFamilyPolicy="PreferDualStack"))
        await cities.wait(1)
        assert sorted(each["addressType"] for each in await slices(cities)) == ["IPv4", "IPv6"]
        for name in ("a", "b"):
            await cities.pods.create(pod(name, cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.pods.create(pod("c", cpu="10m", place="lhr", labels={"app": "other"}))
        await cities.wait(30)
        found = await slices(cities)
        assert targets(found) == ["a", "a", "b", "b"]
        assert sorted(each["addressType"] for each in found) == ["IPv4", "IPv6"]
        for one in found:
            assert one["metadata"]["annotations"] == {ANNOTATION_NETWORK: "default/default"}
            assert one["metadata"]["labels"]["team"] == "a"
            assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
            assert one["endpoints"][0]["nodeName"] == "lhr-0"
        before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}
        await cities.wait(60)
        assert {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in await slices(cities)
        } == before

    play(NAMES, story)


def test_endpoints_are_in_the_zone_of_their_node_and_follow_it() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service(trafficDistribution="PreferSameZone"))
        await cities.pods.create(pod("a", cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.wait(30)
        ((endpoint,),) = [one["endpoints"] for one in await slices(cities)]
        assert (endpoint["zone"], endpoint["hints"]) == ("lhr", {"forZones": [{"name": "lhr"}]})
        labels = {"topology.kubernetes.io/zone": "elsewhere"}
        await cities.user.resource(NODES).patch(endpoint["nodeName"], {"metadata": {"labels": labels}})
        await cities.wait(2)
        ((endpoint,),) = [one["endpoints"] for one in await slices(cities)]
        assert (endpoint["zone"], endpoint["hints"]) == ("elsewhere", {"forZones": [{"name": "elsewhere"}]})

    play(NAMES, story)


def test_a_pod_that_goes_or_is_relabelled_is_let_go() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service())
        for name in ("a", "b"):
            await cities.pods.create(pod(name, cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.wait(30)
        await cities.pods.patch("a", {"metadata": {"labels": {"app": "other"}}}, "default")
        await cities.wait(2)
        assert targets(await slices(cities)) == ["b"]
        await cities.pods.delete("b", "default", grace=0)
        await cities.wait(5)
        (empty,) = await slices(cities)
        assert not empty.get("endpoints")

    play(NAMES, story)


def test_slices_go_with_their_service_or_its_selector() -> None:
    async def story(cities: Cities) -> None:
        services = cities.user.resource(SERVICES)
        await services.create(service())
        await services.create(service("other"))
        await services.create(service("outside", type="ExternalName", externalName="example.com", ports=None))
        await cities.wait(1)
        assert await slices(cities, "outside") == []
        await services.delete("web", "default")
        await services.patch("other", {"spec": {"selector": None}}, "default")
        await cities.wait(5)
        assert await slices(cities) == []
        assert await slices(cities, "other") == []

    play(NAMES, story)


def test_slices_of_other_managers_are_left_alone() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service(selector=None))
        labels = {"kubernetes.io/service-name": "web"}
        theirs = {"metadata": {"name": "theirs", "namespace": "default", "labels": labels}, "addressType": "IPv4"}
        await cities.user.resource(ENDPOINT_SLICES).create(
            {**theirs, "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": []}
        )
        await cities.wait(5)
        (kept,) = await slices(cities)
        assert kept["metadata"]["name"] == "theirs"

    play(NAMES, story)


def test_with_public_addresses_no_type_is_told_to_be_missing() -> None:
    async def story(cities: Cities) -> None:
        for kind in ("LoadBalancer", "NodePort"):
            own = service(type=kind)
            await cities.user.resource(SERVICES).create({**own, "metadata": {**own["metadata"], "name": kind.lower()}})
        await cities.wait(5)
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert "ServiceTypeNotOffered" not in {each["reason"] for each in events}

    play(NAMES, story, way_in=True)


def test_types_that_are_not_offered_are_told_once() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service(type="LoadBalancer"))
        await cities.wait(2)
        await cities.user.resource(SERVICES).patch("web", {"metadata": {"labels": {"team": "b"}}}, "default")
        await cities.wait(5)
        events = (await cities.user.resource(EVENTS).list("default")).items
        (told,) = [each for each in events if each["involvedObject"]["kind"] == "Service"]
        assert (told["reason"], told["count"]) == ("ServiceTypeNotOffered", 1)
        assert "LoadBalancer are not offered" in told["message"]

    play(NAMES, story)
