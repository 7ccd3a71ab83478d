"""No Network overlaps a node's address: neither a new Network nor after a new node; it recovers when the node goes."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tarmac.client.targets.untyped import EVENTS, NAMESPACES, NETWORKS
from tests.controllers.cities import BINDINGS, Cities, condition, play, pod
from tests.controllers.test_networks_at_locations import binding, network

NAMES = "namespace,network"


async def move(cities: Cities, node: str, *addresses: str) -> None:
    """Give a node these addresses."""
    listed = [{"type": "InternalIP", "address": each} for each in addresses]
    await cities.nodes.patch(node, {"status": {"addresses": listed}}, subresource="status")


async def a_node(cities: Cities) -> str:
    return (await cities.nodes.list()).items[0]["metadata"]["name"]


def test_a_range_with_a_nodes_address_in_it_is_refused() -> None:
    async def story(cities: Cities) -> None:
        await move(cities, await a_node(cities), "203.0.113.7", "2001:db8:7::1")
        networks = cities.user.resource(NETWORKS)
        for field, written in (("ipv4Range", "203.0.113.0/28"), ("ipv6Range", "2001:db8:7::/48")):
            with pytest.raises(Invalid) as refusal:
                await networks.create(network("mine", ["IPv4", "IPv6"], **{field: written}))
            assert f"spec.ipam.{field}" in str(refusal.value)
            assert "use a range that they are not in" in str(refusal.value)
            assert "203.0.113.7" not in str(refusal.value), "addresses of nodes are hidden from tenants"
        await networks.create(network("mine", ipv4Range="203.0.113.16/28"))

    play(NAMES, story)


def test_a_node_that_comes_later_closes_no_network_and_is_told_so() -> None:
    """A stolen node would otherwise close the Network of any tenant by claiming an address in it."""

    async def story(cities: Cities) -> None:
        networks, bindings = cities.user.resource(NETWORKS), cities.user.resource(BINDINGS)
        await networks.create(network("mine", ipv4Range="203.0.113.0/24"))
        await cities.wait(2)
        node = await a_node(cities)
        await move(cities, node, "203.0.113.7")
        await cities.wait(2)
        assert (await cities.ready(networks, "mine", "default"))["status"] == "True"
        await bindings.create(binding("after", "mine"))
        await cities.wait(2)
        assert (await cities.ready(bindings, "after", "default"))["status"] == "True"
        told = [
            each for each in (await cities.user.resource(EVENTS).list()).items if each["reason"] == "AddressInNetwork"
        ]
        assert [each["involvedObject"]["name"] for each in told] == [node]
        assert "in the range 203.0.113.0/24 of Network default/mine" in told[0]["message"]

    play(NAMES, story)


def test_pods_are_attached_to_a_network_whose_place_a_node_claims() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("first"))
        await cities.wait(5)
        await move(cities, await a_node(cities), "10.128.77.7")
        await cities.wait(2)
        await cities.pods.create(pod("second"))
        await cities.wait(10)
        assert all([(await cities.nodes_of(each))[0] for each in ("first", "second")])

    play(f"{NAMES},scheduler,node", story)


def test_a_network_that_is_refused_for_a_node_heals_when_the_node_goes() -> None:
    """Both were created at once, so admission did not see the node."""

    async def story(cities: Cities) -> None:
        networks, bindings = cities.user.resource(NETWORKS), cities.user.resource(BINDINGS)
        node = await a_node(cities)
        where = (await cities.nodes.get(node))["status"]["addresses"][0]["address"]
        await networks.create(network("mine", ipv4Range="203.0.113.0/24"))
        await move(cities, node, "203.0.113.7")
        await bindings.create(binding("b", "mine"))
        await cities.wait(2)
        assert condition(await networks.get("mine", "default"), "Ready")["reason"] == "NetworkRangeRefused"
        assert (await cities.ready(bindings, "b", "default"))["reason"] == "NetworkRangeRefused"
        await move(cities, node, where)
        await cities.wait(2)
        assert (await cities.ready(networks, "mine", "default"))["status"] == "True"
        assert (await cities.ready(bindings, "b", "default"))["status"] == "True"

    play(NAMES, story)


def test_nodes_in_every_default_range_leave_new_namespaces_a_network() -> None:
    async def story(cities: Cities) -> None:
        honest, stolen = [each["metadata"]["name"] for each in (await cities.nodes.list()).items][:2]
        await move(cities, honest, "10.130.0.1")
        await move(cities, stolen, "10.130.0.2", "172.16.0.1", "172.16.0.2", "192.168.0.1", "100.64.0.1")
        await cities.wait(1)
        team: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await cities.user.resource(NAMESPACES).create(team)
        await cities.wait(2)
        made: Any = await cities.user.resource(NETWORKS).get("default", "team")
        assert condition(made, "Ready")["status"] == "True"
        assert made["status"]["ipv4Range"] == "172.16.0.0/12", "it has the fewest nodes"

    play(NAMES, story)


def test_a_network_that_asks_for_no_range_gets_one_that_no_node_is_in() -> None:
    async def story(cities: Cities) -> None:
        await move(cities, await a_node(cities), "10.130.0.1")
        await cities.wait(1)
        team: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await cities.user.resource(NAMESPACES).create(team)
        await cities.wait(2)
        made: Any = await cities.user.resource(NETWORKS).get("default", "team")
        assert made["status"]["ipv4Range"] == "172.16.0.0/12"
        assert condition(made, "Ready")["status"] == "True"

    play(NAMES, story)
