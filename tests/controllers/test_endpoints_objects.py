"""The v1 Endpoints of a Service follow its pods and are deleted with it; Endpoints written by users become slices."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.targets.target import encode
from tarmac.client.targets.untyped import ENDPOINT_SLICES, ENDPOINTS, EVENTS, SERVICES
from tarmac.decide.reach.partialobjects import decode_service, decode_slice
from tarmac.decide.reach.servicefrontends import NodeZone, ServiceFrontends, ServiceIndex
from tests.controllers.cities import Cities, play, pod
from tests.controllers.test_endpoints_of_services import service, slices

NAMES = "scheduler,node,network,service,endpointslicemirroring"
MIRRORED = "endpointslicemirroring-controller.k8s.io"


def endpoints(name: str = "web", *ips: str, **metadata: Any) -> JsonObject:
    subset = {"addresses": [{"ip": ip} for ip in ips], "ports": [{"port": 8080}]}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "subsets": [subset] if ips else [],
    }


async def stored(cities: Cities, name: str = "web") -> JsonObject:
    return await cities.user.resource(ENDPOINTS).get(name, "default")


def ips(found: JsonObject) -> list[str]:
    return [each["ip"] for subset in found.get("subsets") or () for each in subset.get("addresses") or ()]


def behind(found: list[JsonObject]) -> list[str]:
    return sorted(address for one in found for each in one["endpoints"] for address in each["addresses"])


def test_endpoints_follow_the_pods_and_are_written_once_per_change() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service())
        await cities.wait(1)
        made = await stored(cities)
        assert made["metadata"]["labels"] == {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        assert not made.get("subsets")
        for name in ("a", "b"):
            await cities.pods.create(pod(name, cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.wait(30)
        found = await stored(cities)
        (subset,) = found["subsets"]
        assert sorted(each["targetRef"]["name"] for each in subset["addresses"]) == ["a", "b"]
        assert {each["nodeName"] for each in subset["addresses"]} == {"lhr-0"}
        assert subset["ports"] == [{"port": 80, "protocol": "TCP"}]
        assert found["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
        await cities.pods.patch("a", {"metadata": {"annotations": {"nothing": "new"}}}, "default")
        await cities.wait(60)
        assert (await stored(cities))["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        await cities.pods.delete("b", "default", grace=0)
        await cities.wait(5)
        assert len(ips(await stored(cities))) == 1
        assert {
            each["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] for each in await slices(cities)
        } == {"endpointslice-controller.datumapis.com"}, "the controller does not mirror its own objects"

    play(NAMES, story)


def test_foreign_changes_of_endpoints_are_reverted() -> None:
    async def story(cities: Cities) -> None:
        resource = cities.user.resource(ENDPOINTS)
        await cities.user.resource(SERVICES).create(service())
        await cities.pods.create(pod("a", cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.wait(30)
        (own,) = ips(await stored(cities))
        await resource.patch(
            "web", {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]}, "default"
        )
        await cities.wait(1)
        assert ips(await stored(cities)) == [own]
        await resource.delete("web", "default")
        await cities.wait(1)
        assert ips(await stored(cities)) == [own]

    play(NAMES, story)


def test_endpoints_are_deleted_with_their_service_also_if_unobserved() -> None:
    async def story(cities: Cities) -> None:
        services, resource = cities.user.resource(SERVICES), cities.user.resource(ENDPOINTS)
        for name in ("seen", "unseen"):
            await services.create(service(name))
        await resource.create(endpoints("early", "192.0.2.1"))
        leader = {"control-plane.alpha.kubernetes.io/leader": "{}"}
        await resource.create(endpoints("leader", annotations=leader))
        await cities.wait(1)
        await services.delete("seen", "default")
        await cities.wait(2)
        with pytest.raises(NotFound):
            await stored(cities, "seen")
        assert ips(await stored(cities, "early")) == ["192.0.2.1"], "its Service may follow"
        await services.create(service("early", selector=None))
        await cities.stop()
        await services.delete("unseen", "default")
        cities.start(NAMES)
        await cities.wait(2)
        left = {each["metadata"]["name"] for each in (await resource.list("default")).items}
        assert left & {"seen", "unseen", "early", "leader"} == {"early", "leader"}

    play(NAMES, story)


def test_a_selector_that_is_taken_away_leaves_them_to_people() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service())
        await cities.pods.create(pod("a", cpu="10m", place="lhr", labels={"app": "web"}))
        await cities.wait(30)
        before = ips(await stored(cities))
        await cities.user.resource(SERVICES).patch("web", {"spec": {"selector": None}}, "default")
        await cities.wait(2)
        assert ips(await stored(cities)) == before
        (mirror,) = await slices(cities)
        assert mirror["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == MIRRORED
        await cities.user.resource(SERVICES).patch("web", {"spec": {"selector": {"app": "web"}}}, "default")
        await cities.wait(2)
        (own,) = await slices(cities)
        assert own["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] != MIRRORED

    play(NAMES, story)


def test_hand_written_endpoints_become_slices_that_carry_connections() -> None:
    async def story(cities: Cities) -> None:
        made = await cities.user.resource(SERVICES).create(service(selector=None))
        written = await cities.user.resource(ENDPOINTS).create(
            endpoints("web", "192.0.2.1", "192.0.2.2", labels={"team": "b"}, annotations={"mine": "x"})
        )
        await cities.wait(1)
        (mirror,) = await slices(cities)
        assert mirror["metadata"]["labels"] == {
            "team": "b",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": MIRRORED,
        }
        assert mirror["metadata"]["annotations"] == {"mine": "x"}
        (owner,) = mirror["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Endpoints", written["metadata"]["uid"], True)
        index = ServiceIndex([decode_service(encode(made))], [decode_slice(encode(mirror))])
        ports = ServiceFrontends("default/default", NodeZone("lhr-0"))
        ports.update(index.offered("default/default"))
        (port,) = [each for each in ports.ports if each.address == made["spec"]["clusterIP"]]
        assert (port.port, port.backends) == (80, (("192.0.2.1", 8080), ("192.0.2.2", 8080)))

    play(NAMES, story)


def test_mirrors_follow_what_is_written_and_go_with_it() -> None:
    async def story(cities: Cities) -> None:
        resource = cities.user.resource(ENDPOINTS)
        await cities.user.resource(SERVICES).create(service(selector=None))
        await resource.create(endpoints("web", "192.0.2.1", annotations={ANNOTATION_NETWORK: "default/other"}))
        await cities.wait(1)
        (first,) = await slices(cities)
        assert first["metadata"]["annotations"] == {ANNOTATION_NETWORK: "default/other"}
        await resource.patch("web", {"metadata": {"annotations": {ANNOTATION_NETWORK: None}}}, "default")
        await cities.wait(1)
        assert not (await slices(cities))[0]["metadata"].get("annotations"), "no longer on that Network"
        await resource.patch("web", endpoints("web", "192.0.2.3", "2001:db8::1"), "default")
        await cities.wait(1)
        found = await slices(cities)
        assert behind(found) == ["192.0.2.3", "2001:db8::1"]
        before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}
        await cities.wait(60)
        assert {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in await slices(cities)
        } == before
        await cities.user.resource(ENDPOINT_SLICES).delete(next(iter(before)), "default")
        await cities.wait(1)
        assert behind(await slices(cities)) == ["192.0.2.3", "2001:db8::1"], "created again"
        skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        await resource.patch("web", {"metadata": {"labels": skip}}, "default")
        await cities.wait(1)
        assert await slices(cities) == []
        await resource.patch("web", {"metadata": {"labels": None}}, "default")
        await cities.wait(1)
        assert len(await slices(cities)) == 2
        await resource.delete("web", "default")
        await cities.wait(2)
        assert await slices(cities) == []

    play(NAMES, story)


def test_mirrors_go_with_the_service_and_come_with_it() -> None:
    async def story(cities: Cities) -> None:
        resource = cities.user.resource(ENDPOINTS)
        await resource.create(endpoints("web", "192.0.2.1"))
        await cities.wait(1)
        assert await slices(cities) == [], "there is no Service"
        await cities.user.resource(SERVICES).create(service(selector=None))
        await cities.wait(1)
        assert behind(await slices(cities)) == ["192.0.2.1"]
        await cities.user.resource(SERVICES).delete("web", "default")
        await cities.wait(2)
        assert await slices(cities) == []
        with pytest.raises(NotFound):
            await stored(cities)

    play(NAMES, story)


def test_more_than_can_be_mirrored_is_told() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service(selector=None))
        many = [f"10.1.{number // 250}.{number % 250}" for number in range(1200)]
        await cities.user.resource(ENDPOINTS).create(endpoints("web", *many))
        await cities.wait(5)
        assert len(behind(await slices(cities))) == 1000
        events = (await cities.user.resource(EVENTS).list("default")).items
        (told,) = [each for each in events if each["involvedObject"]["kind"] == "Endpoints"]
        assert told["reason"] == "TooManyAddressesToMirror"
        assert told["message"].endswith("200 addresses were skipped")

    play(NAMES, story)


def test_a_thousand_pods_are_read_once_for_each_change() -> None:
    """One pod of a thousand changes: one slice and one object are written."""

    async def story(cities: Cities) -> None:
        await cities.user.resource(SERVICES).create(service())
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for number in range(1000):
            name, ip = f"p{number}", f"10.9.{number // 250}.{number % 250 + 1}"
            await cities.pods.create({**pod(name, labels={"app": "web"}, schedulerName="nobody"), "status": {}})
            said = {**status, "podIP": ip, "podIPs": [{"ip": ip}]}
            await cities.pods.patch(name, {"status": said}, "default", subresource="status")
        await cities.wait(10)
        before = await slices(cities)
        assert len(before) == 10
        assert len(ips(await stored(cities))) == 1000
        unready = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-15T12:00:00Z"}]
        await cities.pods.patch("p7", {"status": {"conditions": unready}}, "default", subresource="status")
        await cities.wait(10)
        versions = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in before}
        changed = [
            each
            for each in await slices(cities)
            if versions[each["metadata"]["name"]] != each["metadata"]["resourceVersion"]
        ]
        assert len(changed) == 1
        found = await stored(cities)
        assert (len(ips(found)), len(found["subsets"][0]["notReadyAddresses"])) == (999, 1)
        trigger = found["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
        assert trigger == "2026-11-15T12:00:00Z"

    play(NAMES, story)
