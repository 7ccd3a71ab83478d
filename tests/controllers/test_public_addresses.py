"""Services and Workloads get public addresses, keep them, and return them to rest; status shows true announcements."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARED, API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import ENDPOINT_SLICES, EVENTS, NAMESPACES, SERVICES, WORKLOADS
from tests.controllers.cities import Cities, condition, play

POOLS = dynamic(API_VERSION, "addresspools", "AddressPool", namespaced=False)
ADDRESSES = dynamic(API_VERSION, "publicaddresses", "PublicAddress", namespaced=False)
PEERS = dynamic(API_VERSION, "bgppeers", "BGPPeer", namespaced=False)
Story = Callable[[Cities], Coroutine[Any, Any, None]]


def told(story: Story, controllers: str = "ingress") -> None:
    play(controllers, story, way_in=True)


def pool(name: str = "public", **spec: Any) -> JsonObject:
    full = {
        "ranges": [{"cidr": "203.0.113.0/28"}],
        "allowedNamespaces": {"names": ["default"]},
        "holdDown": "1m",
        **spec,
    }
    return {"apiVersion": API_VERSION, "kind": "AddressPool", "metadata": {"name": name}, "spec": full}


def service(name: str = "web", namespace: str = "default", port: int = 80, **more: Any) -> JsonObject:
    annotations = more.pop("annotations", {})
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": port}], **more}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


async def gateway(cities: Cities, name: str = "dfw-0") -> None:
    facts = write_facts(NodeFacts([OutsideInterface("outside0", ["203.0.113.14/28"])]))
    metadata = {"labels": {"submariner.io/gateway": "true"}, "annotations": {"submariner.io/node-facts": facts}}
    await cities.nodes.patch(name, {"metadata": metadata})


async def report(cities: Cities, address: str, *nodes: JsonObject) -> None:
    await cities.user.resource(ADDRESSES).patch(address, {"status": {"nodes": list(nodes)}}, subresource="status")


async def held(cities: Cities) -> dict[str, list[str]]:
    """Return the holders of each address."""
    found: dict[str, list[str]] = {}
    for each in (await cities.user.resource(ADDRESSES).list()).items:
        spec = each["spec"]
        references = [spec["claimRef"], *spec.get("sharedBy", ())] if spec.get("claimRef") else []
        found[spec["address"]] = [one["name"] for one in references]
    return found


async def status(cities: Cities, name: str = "web") -> tuple[list[str], str]:
    """Return the addresses that a Service shows, and the reason of its condition."""
    found = await cities.user.resource(SERVICES).get(name, "default")
    shown = (found["status"].get("loadBalancer") or {}).get("ingress") or []
    assert all(each["ipMode"] == "VIP" for each in shown)
    return [each["ip"] for each in shown], condition(found, "LoadBalancerReady").get("reason", "")


def test_a_service_shows_its_address_once_a_gateway_has_acknowledged_it() -> None:
    async def story(cities: Cities) -> None:
        services = cities.user.resource(SERVICES)
        await services.create(service(annotations={ANNOTATION_ADDRESSES: "203.0.113.5"}))
        await cities.wait(2)
        assert await status(cities) == ([], "NoPool")
        await cities.user.resource(POOLS).create(pool())
        await cities.wait(2)
        assert await held(cities) == {"203.0.113.5": ["web"]}
        assert await status(cities) == ([], "NoEndpoints")
        found = await cities.user.resource(POOLS).get("public")
        assert condition(found, "Ready")["reason"] == "NoGateway"
        # The report of a node that is no gateway does not count.
        await report(cities, "203.0.113.5", {"name": "dfw-0", "announcing": True})
        await cities.wait(2)
        assert await status(cities) == ([], "NoEndpoints")
        await gateway(cities)
        await cities.wait(4)
        assert await status(cities) == (["203.0.113.5"], "Announced")
        address = await cities.user.resource(ADDRESSES).get("203.0.113.5")
        assert (address["status"]["phase"], condition(address, "Announced")["status"]) == ("Bound", "True")
        found = await cities.user.resource(POOLS).get("public")
        assert found["status"]["summary"] == {"bound": 1, "available": 12, "resting": 0}
        assert condition(found, "Ready")["status"] == "True"
        events = [each["reason"] for each in (await cities.user.resource(EVENTS).list("default")).items]
        assert {"NoPool", "AddressBound", "Announced"} <= set(events)
        # Withdrawn: the address is shown until it is released.
        await report(cities, "203.0.113.5", {"name": "dfw-0", "announcing": False, "reason": "SelfTestFailed"})
        await cities.wait(2)
        assert (await status(cities))[0] == ["203.0.113.5"]
        assert condition(await services.get("web", "default"), "LoadBalancerReady")["status"] == "False"

    told(story)


def test_an_address_tells_by_events_and_metrics_where_it_is_announced() -> None:
    async def story(cities: Cities) -> None:
        for node in ("dfw-0", "lhr-0"):
            await gateway(cities, node)
        await cities.user.resource(POOLS).create(pool())
        await cities.user.resource(SERVICES).create(service(annotations={ANNOTATION_ADDRESSES: "203.0.113.5"}))
        await cities.wait(3)
        assert shown(cities)["tarmac_public_addresses_announced"] == {"announced": 0, "conflict": 0}
        for node in ("dfw-0", "lhr-0"):
            await report(cities, "203.0.113.5", {"name": node, "announcing": True})
            await cities.wait(3)
        assert shown(cities) == {
            "tarmac_public_addresses": {"Bound": 1},
            "tarmac_public_addresses_announced": {"announced": 1, "conflict": 0},
            "tarmac_bgp_sessions": {},
        }
        await report(cities, "203.0.113.5", {"name": "lhr-0", "announcing": False, "reason": "AddressConflict"})
        await cities.wait(3)
        assert shown(cities)["tarmac_public_addresses_announced"] == {"announced": 0, "conflict": 1}
        events = (await cities.user.resource(EVENTS).list("default")).items
        mine = [each for each in events if each["involvedObject"]["kind"] == "PublicAddress"]
        told_of = {each["reason"]: each["message"] for each in mine}
        assert told_of.keys() >= {"Announced", "Moved", "Withdrawn", "AddressConflict"}
        assert ("dfw" in told_of["Announced"], "lhr" in told_of["Moved"]) == (True, True)

    told(story)


def shown(cities: Cities) -> dict[str, dict[str, float]]:
    """Metrics of public addresses: values by the last label."""
    return {
        name: {dict(labels)[list(dict(labels))[-1]]: value for _, labels, value in samples}
        for name, _, _, samples in cities.metrics.families()
        if name.startswith(("tarmac_public", "tarmac_bgp"))
    }


async def members(cities: Cities, address: str) -> list[list[str]]:
    """Return the names of candidates, voters and former candidates."""
    spec = (await cities.user.resource(ADDRESSES).get(address))["spec"]
    return [sorted(each["name"] for each in spec.get(field) or ()) for field in ("candidates", "voters", "leaving")]


def test_an_address_gets_candidates_and_voters_and_former_ones_leave_when_they_have_heard() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(POOLS).create(pool())
        await cities.user.resource(SERVICES).create(service())
        await cities.wait(3)
        ((address, _),) = (await held(cities)).items()
        assert await members(cities, address) == [[], [], []], "no node is a gateway"
        await gateway(cities)
        await cities.wait(3)
        assert await members(cities, address) == [["dfw-0"], ["dfw-0"], []]
        for label in (None, "true"):
            labels = {"metadata": {"labels": {"submariner.io/gateway": label}}}
            await gateway(cities, "lhr-0")
            await cities.nodes.patch("dfw-0", labels)
            await cities.wait(3)
            (candidates, _, leaving) = await members(cities, address)
            assert candidates == (["lhr-0"] if label is None else ["dfw-0", "lhr-0"])
            assert leaving == (["dfw-0"] if label is None else [])
        await cities.nodes.patch("lhr-0", {"metadata": {"labels": {"submariner.io/gateway": None}}})
        await cities.wait(3)
        assert (await members(cities, address))[2] == ["lhr-0"]
        generation = (await cities.user.resource(ADDRESSES).get(address))["metadata"]["generation"]
        await report(cities, address, {"name": "lhr-0", "appliedGeneration": generation})
        await cities.wait(3)
        assert (await members(cities, address))[2] == []

    told(story)


def test_a_released_address_rests_and_returns_only_to_its_namespace() -> None:
    async def story(cities: Cities) -> None:
        services = cities.user.resource(SERVICES)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        await cities.user.resource(NAMESPACES).create(namespace)
        await cities.user.resource(POOLS).create(pool(allowedNamespaces={"names": ["default", "other"]}))
        asked = {ANNOTATION_ADDRESSES: "203.0.113.5"}
        await services.create(service(annotations=asked))
        await cities.wait(2)
        await services.patch("web", {"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": None}}, "default")
        await cities.wait(3)
        address = await cities.user.resource(ADDRESSES).get("203.0.113.5")
        assert address["status"]["phase"] == "Released"
        assert await status(cities) == ([], "")
        await cities.wait(12)
        address = await cities.user.resource(ADDRESSES).get("203.0.113.5")
        assert (address["status"]["phase"], address["spec"].get("claimRef")) == ("Quarantined", None)
        await services.create(service("thief", "other", annotations=asked))
        await cities.wait(2)
        refused = condition(await services.get("thief", "other"), "LoadBalancerReady")
        assert refused["reason"] == "AddressQuarantined"
        await services.create(service("back", annotations=asked))
        await cities.wait(2)
        assert await held(cities) == {"203.0.113.5": ["back"]}
        await services.delete("back", "default")
        await services.delete("thief", "other")
        await cities.wait(80)
        assert await held(cities) == {}, "it has rested and is deleted"
        await cities.user.resource(POOLS).delete("public")
        await cities.until(lambda: cities.gone(cities.user.resource(POOLS), "public"))

    told(story)


def test_a_pool_and_an_address_in_use_are_not_deleted() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(POOLS).create(pool())
        await cities.user.resource(SERVICES).create(service())
        await cities.wait(2)
        (name,) = await held(cities)
        await cities.user.resource(ADDRESSES).delete(name)
        await cities.user.resource(POOLS).delete("public")
        await cities.wait(5)
        assert await held(cities) == {name: ["web"]}
        assert not await cities.gone(cities.user.resource(POOLS), "public")
        await cities.user.resource(SERVICES).delete("web", "default")
        await cities.wait(90)
        assert await held(cities) == {}
        assert await cities.gone(cities.user.resource(POOLS), "public")

    told(story)


def test_services_of_one_namespace_share_an_address_by_key_with_different_ports() -> None:
    async def story(cities: Cities) -> None:
        services, key = cities.user.resource(SERVICES), {ANNOTATION_SHARED: "front"}
        await cities.user.resource(POOLS).create(pool())
        await services.create(service("a", annotations=key))
        await cities.wait(1.5)
        await services.create(service("b", port=443, annotations=key))
        await services.create(service("alone", port=8080))
        await cities.wait(2)
        found = await held(cities)
        assert sorted(found.values()) == [["a", "b"], ["alone"]]
        await services.create(service("c", port=443, annotations=key))
        await services.create(service("d", port=22, annotations=key, externalTrafficPolicy="Local"))
        await cities.wait(2)
        assert (await status(cities, "c"))[1] == "PortConflict"
        assert (await status(cities, "d"))[1] == "PolicyMismatch"
        await services.delete("a", "default")
        await cities.wait(3)
        assert ["b"] in (await held(cities)).values(), "the next holder takes its place"

    told(story)


@pytest.mark.parametrize(
    ("spec", "more", "expected"),
    [
        ({"allowedNamespaces": {"names": []}}, {}, "NoPool"),
        ({"allowedNamespaces": {"names": []}}, {"annotations": {ANNOTATION_POOL: "public"}}, "NotAuthorized"),
        ({}, {"annotations": {ANNOTATION_POOL: "other"}}, "PoolNotFound"),
        ({"scope": "Anycast"}, {"annotations": {ANNOTATION_POOL: "public"}}, "PoolNotFound"),
        ({"quota": {"perNamespace": 0}}, {}, "QuotaExceeded"),
        ({}, {"annotations": {ANNOTATION_ADDRESSES: "203.0.113.0"}}, "AddressReserved"),
        ({}, {"annotations": {ANNOTATION_ADDRESSES: "198.51.100.1"}}, "AddressNotInClass"),
        ({"autoAssign": False}, {}, "NoPool"),
        ({"autoAssign": False}, {"annotations": {ANNOTATION_POOL: "public"}}, "NoEndpoints"),
        ({}, {"loadBalancerClass": "example.com/other"}, ""),
        ({}, {"loadBalancerClass": "networking.datumapis.com/pool"}, "NoEndpoints"),
    ],
)
def test_a_refusal_is_a_condition_with_its_reason(spec: JsonObject, more: dict[str, Any], expected: str) -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(POOLS).create(pool(**spec))
        await cities.user.resource(SERVICES).create(service(**more))
        await cities.wait(2)
        assert (await status(cities))[1] == expected

    told(story)


def test_the_pool_with_the_highest_priority_that_has_room_is_used() -> None:
    async def story(cities: Cities) -> None:
        pools = cities.user.resource(POOLS)
        await pools.create(pool("a-low"))
        small = [{"start": "198.51.100.7", "end": "198.51.100.7"}]
        await pools.create(pool("high", ranges=small, priority=5))
        for name in ("first", "second"):
            await cities.user.resource(SERVICES).create(service(name))
            await cities.wait(1.5)
        found = await held(cities)
        assert found.pop("198.51.100.7") == ["first"]
        assert list(found.values()) == [["second"]]

    told(story)


def test_a_second_family_comes_and_goes_without_moving_the_first() -> None:
    async def story(cities: Cities) -> None:
        services = cities.user.resource(SERVICES)
        await cities.user.resource(POOLS).create(pool(ranges=[{"cidr": "203.0.113.0/28"}, {"cidr": "2001:db8::/124"}]))
        await services.create(service())
        await cities.wait(2)
        (first,) = await held(cities)
        both = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
        await services.patch("web", {"spec": both}, "default")
        await cities.wait(2)
        found = await held(cities)
        assert len(found) == 2
        assert first in found
        single = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "clusterIPs": None}
        web = await services.get("web", "default")
        single["clusterIPs"] = web["spec"]["clusterIPs"][:1]
        await services.patch("web", {"spec": single}, "default")
        await cities.wait(15)
        addresses = (await cities.user.resource(ADDRESSES).list()).items
        phases = {each["spec"]["address"]: each["status"]["phase"] for each in addresses}
        assert phases.pop(first) == "Bound"
        assert list(phases.values()) == ["Quarantined"]

    told(story)


def workload(name: str = "hello", **annotations: str) -> JsonObject:
    container = {
        "name": "c",
        "image": "registry.local/a/b:1",
        "ports": [{"name": "http", "port": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}},
    }
    cities = {"cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 1}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "annotations": {ANNOTATION_ANYCAST: "true", **annotations}},
        "spec": {
            "template": {
                "spec": {
                    "runtime": {
                        "resources": {"instanceType": "datumcloud/d1-standard-2"},
                        "sandbox": {"containers": [container]},
                    },
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }
            },
            "placements": [{"name": "all", **cities}],
        },
    }


def test_a_workload_announces_its_address_from_the_cities_with_ready_instances() -> None:
    async def story(cities: Cities) -> None:
        workloads = cities.user.resource(WORKLOADS)
        await cities.user.resource(POOLS).create(pool("anycast", scope="Anycast"))
        peer = {"address": "192.0.2.1", "asn": 65001, "localASN": 65000}
        kind = {"apiVersion": API_VERSION, "kind": "BGPPeer", "metadata": {"name": "tor"}, "spec": peer}
        await cities.user.resource(PEERS).create(kind)
        for node in ("dfw-0", "lhr-0"):
            await gateway(cities, node)
        await workloads.create(workload())
        await cities.wait(40)
        (address,) = await held(cities)
        found = await workloads.get("hello", "default")
        assert condition(found, "AnycastReady")["reason"] == "NoPeer"
        assert "anycastAddresses" not in found["status"]
        slices = (await cities.user.resource(ENDPOINT_SLICES).list("default")).items
        mine = [each for each in slices if each["metadata"]["labels"].get("networking.datumapis.com/address")]
        assert {each["metadata"]["labels"]["networking.datumapis.com/address"] for each in mine} == {address}
        assert {end["nodeName"][:3] for each in mine for end in each["endpoints"]} == {"dfw", "lhr"}
        assert {port["port"] for each in mine for port in each["ports"]} == {8080}
        sessions = [{"name": node, "state": "Established"} for node in ("dfw-0", "lhr-0")]
        await cities.user.resource(PEERS).patch("tor", {"status": {"nodes": sessions}}, subresource="status")
        await report(cities, address, {"name": "dfw-0", "announcing": True}, {"name": "lhr-0", "announcing": False})
        await cities.wait(5)
        found = await workloads.get("hello", "default")
        assert condition(found, "AnycastReady")["reason"] == "PartlyAnnounced"
        assert found["status"]["anycastAddresses"] == [address]
        assert [(each["city"], each.get("announced", False)) for each in found["status"]["anycast"]] == [
            ("DFW", True),
            ("LHR", False),
        ]
        await report(cities, address, {"name": "dfw-0", "announcing": True}, {"name": "lhr-0", "announcing": True})
        await cities.wait(3)
        found = await workloads.get("hello", "default")
        assert condition(found, "AnycastReady")["reason"] == "Announced"
        assert condition(await cities.user.resource(PEERS).get("tor"), "Established")["status"] == "True"
        await workloads.patch("hello", {"metadata": {"annotations": {ANNOTATION_ANYCAST: None}}}, "default")
        await cities.wait(5)
        found = await workloads.get("hello", "default")
        assert condition(found, "AnycastReady") == {}
        assert {"anycastAddresses", "anycast"}.isdisjoint(found["status"])
        slices = (await cities.user.resource(ENDPOINT_SLICES).list("default")).items
        assert not [each for each in slices if each["metadata"]["labels"].get("networking.datumapis.com/address")]
        assert (await cities.user.resource(ADDRESSES).get(address))["status"]["phase"] == "Released"

    told(story, "location,node,network,workload,deployment,instance,scheduler,quota,instancetype,ingress")


@pytest.mark.parametrize("seed", range(4))
def test_controllers_that_die_at_any_moment_hold_no_address_twice(seed: int) -> None:
    """The process is killed repeatedly while Services come and go; two processes overlap at times."""

    async def story(cities: Cities) -> None:
        draw = Random(seed)
        services = cities.user.resource(SERVICES)
        await cities.user.resource(POOLS).create(pool(ranges=[{"cidr": "203.0.113.0/29"}], holdDown="5s"))
        alive: set[str] = set()
        for number in range(30):
            if alive and draw.random() < 0.4:
                name = draw.choice(sorted(alive))
                alive.discard(name)
                await services.delete(name, "default")
            else:
                alive.add(f"s{number}")
                await services.create(service(f"s{number}"))
            await cities.wait(draw.random() * 0.3)
            if draw.random() < 0.5:
                await cities.stop()
                cities.start("serviceaccount,garbage,ingress", way_in=True)
            found = await held(cities)
            holders = [name for names in found.values() for name in names]
            assert len(holders) == len(set(holders)), found
        await cities.wait(60)
        found = await held(cities)
        assert {name for names in found.values() for name in names} <= alive
        assert len([names for names in found.values() if names]) == min(len(alive), 6)

    told(story)
