"""A default Network everywhere; a binding becomes a context with subnets of its own; deletion in order."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import pytest

from tarmac.api.networking.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.client.targets.untyped import NAMESPACES, NETWORKS
from tarmac.controllers.network import subnets as subnets_module
from tests.controllers.cities import BINDINGS, CLAIMS, CONTEXTS, SUBNETS, Cities, condition, play

NAMES = "namespace,network"


def network(name: str, families: list[str] | None = None, **ipam: str) -> JsonObject:
    spec = {"ipam": {"mode": "Auto", **ipam}, **({"ipFamilies": families} if families else {})}
    return {
        "apiVersion": API_VERSION,
        "kind": "Network",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def binding(name: str, network: str = "default", location: str = "dfw") -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "NetworkBinding",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"network": {"name": network}, "location": {"name": location}},
    }


async def subnets(cities: Cities) -> dict[str, list[Any]]:
    """Return the visible ranges by network."""
    contexts = {each["metadata"]["name"]: each for each in (await cities.user.resource(CONTEXTS).list("default")).items}
    found: dict[str, list[Any]] = {}
    for subnet in (await cities.user.resource(SUBNETS).list("default")).items:
        status = subnet.get("status") or {}
        if status.get("startAddress"):
            name = contexts[subnet["spec"]["networkContext"]["name"]]["spec"]["network"]["name"]
            found.setdefault(name, []).append(ip_network(f"{status['startAddress']}/{status['prefixLength']}"))
    return found


def test_every_namespace_has_a_default_network_with_both_families() -> None:
    async def story(cities: Cities) -> None:
        networks, namespaces = cities.user.resource(NETWORKS), cities.user.resource(NAMESPACES)
        await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        plain = {"networking.datumapis.com/default-network": "none"}
        await namespaces.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plain", "annotations": plain}}
        )
        await cities.wait(1)
        made = {each["metadata"]["namespace"]: each for each in (await networks.list()).items}
        assert set(made) == {"default", "team", "kube-system"}
        assert made["team"]["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
        await networks.delete("default", "team")
        await cities.wait(1)
        assert (await networks.get("default", "team"))["metadata"]["uid"] != made["team"]["metadata"]["uid"]

    play(NAMES, story)


def test_networks_get_numbers_and_ranges_of_their_own() -> None:
    async def story(cities: Cities) -> None:
        networks = cities.user.resource(NETWORKS)
        for number in range(5):
            await networks.create(network(f"n{number}", ["IPv4", "IPv6"]))
        await networks.create(network("small", ipv4Range="192.168.0.0/24"))
        await cities.wait(1)
        made = (await networks.list("default")).items
        assert all(condition(each, "Ready")["status"] == "True" for each in made)
        assert len({each["status"]["vni"] for each in made}) == len(made) == 7
        assert min(each["status"]["vni"] for each in (await networks.list()).items) == 4097
        ipv6 = [each["status"]["ipv6Range"] for each in made if "ipv6Range" in each["status"]]
        assert len(set(ipv6)) == len(ipv6) == 6
        small = await networks.get("small", "default")
        assert (small["status"]["ipv4Range"], small["status"].get("ipv6Range")) == ("192.168.0.0/24", None)

    play(NAMES, story)


def test_a_binding_becomes_ready_with_a_subnet_of_each_family() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(BINDINGS).create(binding("web-net-0"))
        await cities.wait(1)
        made = await cities.user.resource(BINDINGS).get("web-net-0", "default")
        assert condition(made, "Ready")["reason"] == "NetworkContextReady"
        context = await cities.user.resource(CONTEXTS).get(made["status"]["networkContextRef"]["name"], "default")
        assert (context["status"]["mtu"], condition(context, "Ready")["status"]) == (1460, "True")
        ranges = (await subnets(cities))["default"]
        assert sorted((each.version, each.prefixlen) for each in ranges) == [(4, 20), (6, 64)]
        claims = (await cities.user.resource(CLAIMS).list("default")).items
        assert {condition(each, "Ready")["reason"] for each in claims} == {"SubnetReady"}

    play(NAMES, story)


def test_subnets_of_a_network_never_overlap() -> None:
    async def story(cities: Cities) -> None:
        for number in range(12):
            await cities.user.resource(BINDINGS).create(binding(f"b{number}", location=f"place{number}"))
        await cities.wait(2)
        found = (await subnets(cities))["default"]
        assert len(found) == 24
        for index, one in enumerate(found):
            assert not any(one.version == other.version and one.overlaps(other) for other in found[:index])

    play(NAMES, story)


def test_bindings_share_the_context_of_their_network_and_place() -> None:
    async def story(cities: Cities) -> None:
        for name in ("one", "two"):
            await cities.user.resource(BINDINGS).create(binding(name))
        await cities.wait(1)
        assert len((await cities.user.resource(CONTEXTS).list("default")).items) == 1

    play(NAMES, story)


def test_a_network_without_room_says_so_on_the_binding() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(NETWORKS).create(network("tiny", ipv4Range="10.0.0.0/28"))
        await cities.user.resource(BINDINGS).create(binding("first", "tiny", "dfw"))
        await cities.wait(1)
        await cities.user.resource(BINDINGS).create(binding("second", "tiny", "lhr"))
        await cities.wait(1)
        bindings = cities.user.resource(BINDINGS)
        assert (await cities.ready(bindings, "first", "default"))["status"] == "True"
        said = await cities.ready(bindings, "second", "default")
        assert (said["status"], said["reason"]) == ("False", "AddressRangeExhausted")

    play(NAMES, story)


def test_a_binding_to_a_missing_network_waits_for_it() -> None:
    async def story(cities: Cities) -> None:
        bindings = cities.user.resource(BINDINGS)
        await bindings.create(binding("early", "later"))
        await cities.wait(1)
        assert (await cities.ready(bindings, "early", "default"))["reason"] == "NetworkNotFound"
        await cities.user.resource(NETWORKS).create(network("later"))
        await cities.wait(1)
        assert (await cities.ready(bindings, "early", "default"))["status"] == "True"

    play(NAMES, story)


def test_a_network_goes_after_its_users_and_takes_its_contexts_along() -> None:
    async def story(cities: Cities) -> None:
        networks, bindings = cities.user.resource(NETWORKS), cities.user.resource(BINDINGS)
        await networks.create(network("old"))
        await bindings.create(binding("user", "old"))
        await cities.wait(1)
        await networks.delete("old", "default")
        await cities.wait(1)
        assert (await cities.ready(networks, "old", "default"))["reason"] == "NetworkInUse"
        assert await subnets(cities)
        await bindings.delete("user", "default")
        await cities.wait(5)
        with pytest.raises(NotFound):
            await networks.get("old", "default")
        assert not (await cities.user.resource(CONTEXTS).list("default")).items
        assert not (await cities.user.resource(SUBNETS).list("default")).items

    play(NAMES, story)


def test_a_context_goes_with_its_location_once_nothing_binds_it() -> None:
    async def story(cities: Cities) -> None:
        bindings = cities.user.resource(BINDINGS)
        await bindings.create(binding("user"))
        await cities.wait(1)
        await cities.locations.delete("dfw")
        await cities.wait(1)
        assert (await cities.user.resource(CONTEXTS).list("default")).items
        await bindings.delete("user", "default")
        await cities.wait(1)
        assert not (await cities.user.resource(CONTEXTS).list("default")).items

    play(NAMES, story)


def test_a_subnet_whose_status_could_not_be_written_gets_its_range_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network has room for one: the range of the failed write must not count as taken."""
    write, failures, written = subnets_module.write_status, 3, list[str]()

    async def failing(resource: Any, metadata: Any, before: Any, status: Any, manager: str) -> Any:
        nonlocal failures
        if resource.target.kind == "Subnet":
            written.append(status.start_address)
            if failures:
                failures -= 1
                raise Conflict("the object has been modified")
        return await write(resource, metadata, before, status, manager)

    async def story(cities: Cities) -> None:
        monkeypatch.setattr(subnets_module, "write_status", failing)
        await cities.user.resource(NETWORKS).create(network("one", ["IPv4"], ipv4Range="192.168.0.0/20"))
        await cities.user.resource(BINDINGS).create(binding("b", "one"))
        await cities.wait(20)
        assert written == ["192.168.0.0"] * 4
        assert [str(each) for each in (await subnets(cities))["one"]] == ["192.168.0.0/20"]

    play(NAMES, story)
