"""References of external services: classes their author may use, unclaimed addresses, servers outside."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.status import ApiError, Conflict, Invalid
from tarmac.server.security.users import User
from tests.admission.world import Object, World

PLUGIN = "ExternalReferences"
JANE = User("jane")


def address_class(name: str, *ranges: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ranges": [{"cidr": each} for each in ranges], **spec}}


def claim(**spec: Any) -> Object:
    return {"metadata": {"name": "c", "namespace": "team"}, "spec": {"className": "partner", **spec}}


def service(target: str, *namespaces: str) -> Object:
    sources = [{"service": {"name": "s", "namespace": each}, "sourceIP": "192.0.2.7"} for each in namespaces or ("",)]
    spec = {"targetIP": target, "sources": sources, "ports": [{"port": 80}]}
    return {"metadata": {"name": "x", "namespace": "team"}, "spec": spec}


def held(address: str, class_name: str = "partner", **more: Any) -> Object:
    spec = {"address": address, "className": class_name, "claimRef": {"namespace": "team", "name": "c", "uid": "u"}}
    return {"metadata": {"name": address}, "spec": spec, **more}


def refusal(world: World, plural: str, obj: Object, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        world.admit(plural, obj, PLUGIN, **more)
    return caught.value


async def test_classes_offer_different_addresses(world: World) -> None:
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28", "2001:db8::/64"))
    refused = refusal(world, "sourceipclasses", address_class("other", "198.51.100.0/24", "192.0.2.8/29"))
    assert isinstance(refused, Invalid)
    assert 'spec.ranges[1]: Invalid value: "192.0.2.8/29": overlaps 192.0.2.0/28 of SourceIPClass "partner"' in str(
        refused
    )
    world.admit("sourceipclasses", address_class("other", "192.0.2.16/28", "2001:db8:1::/64"), PLUGIN)
    world.admit("sourceipclasses", address_class("partner", "192.0.2.0/27"), PLUGIN, old=address_class("partner"))


async def test_two_classes_that_are_both_on_their_way_see_each_other(world: World) -> None:
    resource = world.resource("sourceipclasses")
    raw = b'{"metadata":{"name":"partner"},"spec":{"ranges":[{"cidr":"192.0.2.0/28"}]}}'
    writing = world.store.create(resource.bucket, "partner", raw)
    assert isinstance(refusal(world, "sourceipclasses", address_class("other", "192.0.2.0/30")), Invalid)
    await writing


async def test_a_class_gives_up_no_address_that_is_held_or_resting(world: World) -> None:
    old = await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28", "198.51.100.0/28"))
    await world.put("sourceips", held("192.0.2.7"))
    resting = held("192.0.2.8", status={"phase": "Quarantined", "lastClaim": {"namespace": "a", "name": "b"}})
    del resting["spec"]["claimRef"]
    await world.put("sourceips", resting)
    free = held("198.51.100.3", status={"phase": "Available"})
    del free["spec"]["claimRef"]
    await world.put("sourceips", free)
    refused = refusal(world, "sourceipclasses", address_class("partner", "192.0.2.0/30"), old=old)
    assert isinstance(refused, Conflict)
    assert "192.0.2.7 (claim team/c), 192.0.2.8 (resting after claim a/b)" in str(refused)
    world.admit("sourceipclasses", address_class("partner", "192.0.2.0/28"), PLUGIN, old=old)
    await world.remove("sourceips", "192.0.2.7")
    await world.remove("sourceips", "192.0.2.8")
    world.admit("sourceipclasses", address_class("partner", "203.0.113.0/30"), PLUGIN, old=old)


async def test_an_address_lies_in_its_class_if_that_is_there(world: World) -> None:
    world.admit("sourceips", held("192.0.2.7"), PLUGIN)
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/30"))
    assert 'must be in a range of SourceIPClass "partner"' in str(refusal(world, "sourceips", held("192.0.2.7")))
    world.admit("sourceips", held("192.0.2.2"), PLUGIN)
    world.admit("sourceips", held("192.0.2.7"), PLUGIN, old=held("192.0.2.7"))


async def test_a_class_is_for_those_who_may_use_it_in_the_namespace_of_the_claim(world: World) -> None:
    refused = refusal(world, "sourceipclaims", claim(), user=JANE)
    assert 'spec.className: Forbidden: you may not use SourceIPClass "partner"' in str(refused)
    rule = {"apiGroups": ["submariner.io"], "resources": ["sourceipclasses"], "resourceNames": ["partner"]}
    await world.put("roles", {"metadata": {"name": "r", "namespace": "team"}, "rules": [{**rule, "verbs": ["use"]}]})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    binding = {"metadata": {"name": "r", "namespace": "team"}, "roleRef": reference, "subjects": [subject]}
    await world.put("rolebindings", binding)
    await world.settle()
    world.admit("sourceipclaims", claim(), PLUGIN, user=JANE)
    refusal(world, "sourceipclaims", claim(className="other"), user=JANE)
    world.admit("sourceipclaims", claim(className="other"), PLUGIN, old=claim(className="other"), user=JANE)


async def test_a_claim_asks_for_no_more_than_its_class_gives(world: World) -> None:
    limits = {"egressBandwidth": "100M", "connections": 10}
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28", limits=limits))
    asked = {"egressBandwidth": "1G", "ingressBandwidth": "9G", "connections": 11}
    told = str(refusal(world, "sourceipclaims", claim(limits=asked)))
    assert "spec.limits.egressBandwidth" in told
    assert "must not exceed the class's 100M" in told
    assert "spec.limits.connections: Invalid value: 11: must not exceed the class's 10" in told
    assert "ingressBandwidth" not in told
    world.admit("sourceipclaims", claim(limits={"egressBandwidth": "50M"}), PLUGIN)


async def test_a_target_is_outside_as_far_as_is_known(world: World) -> None:
    facts = '{"interfaces":[{"name":"outside0","addresses":["192.168.122.2/24"]}]}'
    metadata = {"name": "n", "annotations": {"submariner.io/node-facts": facts}}
    addresses = [{"type": "InternalIP", "address": "203.0.113.4"}]
    await world.put("nodes", {"metadata": metadata, "status": {"addresses": addresses}})
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28"))
    network = {"ipam": {"mode": "Auto", "ipv4Range": "172.16.0.0/16"}}
    await world.put("networks", {"metadata": {"name": "n", "namespace": "shop"}, "spec": network})
    internal = {"ipam": {"mode": "Auto", "ipv4Range": "172.17.0.0/16"}}
    await world.put("networks", {"metadata": {"name": "internal", "namespace": "kube-system"}, "spec": internal})
    for target, where in (
        ("203.0.113.4", "nodes and API servers"),
        ("192.168.122.2", "nodes and API servers"),
        ("192.0.2.9", 'SourceIPClass "partner" 192.0.2.0/28'),
    ):
        assert where in str(refusal(world, "externalservices", service(target)))
    own = {"ipam": {"mode": "Auto", "ipv4Range": "172.18.0.0/16"}}
    await world.put("networks", {"metadata": {"name": "own", "namespace": "team"}, "spec": own})
    assert "Network team/own 172.18.0.0/16" in str(refusal(world, "externalservices", service("172.18.0.9", "shop")))
    of_system = service("172.17.0.9")
    of_system["metadata"]["namespace"] = "kube-public"
    assert "kube-system/internal" in str(refusal(world, "externalservices", of_system))


@pytest.mark.parametrize("namespace", ["shop", "kube-public", "nowhere"])
async def test_a_dry_run_tells_nothing_about_networks_of_other_namespaces(world: World, namespace: str) -> None:
    for name, place in (("n", "shop"), ("internal", "kube-system")):
        spec = {"ipam": {"mode": "Auto", "ipv4Range": "172.16.0.0/16"}}
        await world.put("networks", {"metadata": {"name": name, "namespace": place}, "spec": spec})
    world.admit("externalservices", service("172.16.0.9", namespace), PLUGIN)
    world.admit("externalservices", service("172.16.0.9", namespace), PLUGIN, old=service("203.0.113.1"))


async def test_limits_of_a_class_are_told_to_those_who_may_use_it(world: World) -> None:
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28", limits={"egressBandwidth": "100M"}))
    refused = refusal(world, "sourceipclaims", claim(limits={"egressBandwidth": "200M"}), user=JANE)
    assert "100M" not in str(refused)


async def test_an_update_is_not_refused_for_a_target_that_it_leaves_alone(world: World) -> None:
    await world.put("sourceipclasses", address_class("partner", "192.0.2.0/28"))
    world.admit("externalservices", service("192.0.2.9", "team"), PLUGIN, old=service("192.0.2.9", "team"))
    refusal(world, "externalservices", service("192.0.2.9", "team"), old=service("203.0.113.1", "team"))


async def test_the_namespace_of_the_platforms_rules_stays(world: World) -> None:
    kept = {"metadata": {"name": "external-services"}}
    with pytest.raises(ApiError, match="may not be deleted"):
        world.admit("namespaces", None, old=kept, operation="DELETE")
