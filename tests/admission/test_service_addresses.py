"""Every Service gets addresses of its own, and returns them."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tarmac.api.status import Invalid
from tarmac.server.admission.addresses.serviceaddresses import NODE_PORTS, RANGES
from tarmac.server.encoding import encode_object
from tests.admission.world import World


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    ports = [{"port": 80}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": ports, **spec}}


def made(world: World, obj: dict[str, Any], **how: Any) -> dict[str, Any]:
    return (world.admit("services", obj, "ServiceAddresses", **how).obj or {})["spec"]


async def test_an_address_is_chosen(world: World) -> None:
    spec = made(world, service())
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert ipaddress.ip_address(spec["clusterIP"]) in RANGES["IPv4"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_both_families_on_request(world: World) -> None:
    spec = made(world, service(ipFamilyPolicy="RequireDualStack"))
    four, six = map(ipaddress.ip_address, spec["clusterIPs"])
    assert four in RANGES["IPv4"]
    assert six in RANGES["IPv6"]


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "example.com"}])
async def test_some_services_have_none(world: World, spec: dict[str, Any]) -> None:
    assert made(world, service(**spec)).get("clusterIP", "None") == "None"


async def test_a_chosen_address_must_be_free_and_in_range(world: World) -> None:
    await world.put("services", service("taken", clusterIP="10.96.0.10", clusterIPs=["10.96.0.10"]))
    with pytest.raises(Invalid, match=r"failed to allocate IP 10.96.0.10: provided IP is already allocated"):
        made(world, service(clusterIP="10.96.0.10"))
    with pytest.raises(Invalid, match="the provided network does not match the current range"):
        made(world, service(clusterIP="192.168.0.1"))


async def test_an_address_comes_back_with_the_deletion(world: World) -> None:
    made(world, service("warm-up"))
    await world.put("services", service("old", clusterIP="10.96.0.10", clusterIPs=["10.96.0.10"]))
    await world.remove("services", "default/old")
    assert made(world, service(clusterIP="10.96.0.10"))["clusterIP"] == "10.96.0.10"


async def test_an_accepted_service_holds_its_address_before_it_is_visible(world: World) -> None:
    resource, first = world.resource("services"), service("first", clusterIP="10.96.0.10")
    made(world, first)
    pending = world.store.create(resource.bucket, "default/first", encode_object(first, resource))
    with pytest.raises(Invalid, match="already allocated"):
        made(world, service("second", clusterIP="10.96.0.10"))
    await pending


async def test_failed_and_dry_run_creates_hold_no_addresses(world: World) -> None:
    made(world, service("failed", clusterIP="10.96.0.10"))
    made(world, service("dry", clusterIP="10.96.0.11"), dry_run=True)
    assert made(world, service("next", clusterIP="10.96.0.10"))["clusterIP"] == "10.96.0.10"
    assert made(world, service("after", clusterIP="10.96.0.11"))["clusterIP"] == "10.96.0.11"


async def test_node_ports_are_chosen_and_checked(world: World) -> None:
    spec = made(world, service(type="NodePort"))
    assert spec["ports"][0]["nodePort"] in NODE_PORTS
    with pytest.raises(Invalid, match="provided port is not in the valid range"):
        made(world, service(type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 31000}]
    await world.put("services", service("other", type="NodePort", ports=ports))
    with pytest.raises(Invalid, match="provided port is already allocated"):
        made(world, service(type="NodePort", ports=[{"port": 80, "nodePort": 31000}]))


async def test_an_update_keeps_the_address(world: World) -> None:
    old = service(clusterIP="10.96.0.10", clusterIPs=["10.96.0.10"], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    await world.put("services", old)
    assert made(world, service(), old=old)["clusterIP"] == "10.96.0.10"
