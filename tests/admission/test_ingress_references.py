"""References of connections from outside: pools that their author may use, ranges without another use."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARED
from tarmac.api.status import ApiError, Conflict, Forbidden, Invalid
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.references.ingressreferences import IngressRejection
from tarmac.server.security.users import User
from tests.admission.world import ADMIN, Object, World

PLUGIN = "IngressReferences"
JANE = User("jane")
NODE = User("system:node:dfw-0", groups=("system:nodes",))


def pool(name: str, *ranges: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ranges": [{"cidr": each} for each in ranges], **spec}}


def held(address: str, **more: Any) -> Object:
    reference = {"kind": "Service", "namespace": "team", "name": "web", "uid": "u"}
    return {
        "metadata": {"name": address},
        "spec": {"address": address, "poolName": "public", "claimRef": reference},
        **more,
    }


def service(type: str = "LoadBalancer", **annotations: str) -> Object:
    spec = {"type": type, "ports": [{"port": 80}]}
    return {"metadata": {"name": "web", "namespace": "team", "annotations": annotations}, "spec": spec}


def unprobed(**annotations: str) -> Object:
    spec = {"template": {"spec": {"runtime": {"sandbox": {"containers": [{"name": "c", "image": "i"}]}}}}}
    return {"metadata": {"name": "w", "namespace": "team", "annotations": annotations}, "spec": spec}


def workload(**annotations: str) -> Object:
    made = unprobed(**annotations)
    container = made["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]
    container["readinessProbe"] = {"tcpSocket": {"port": 1}}
    return made


def refusal(world: World, plural: str, obj: Object, *plugins: str, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        world.admit(plural, obj, *(plugins or (PLUGIN,)), **more)
    return caught.value


async def test_pools_overlap_neither_each_other_nor_classes(world: World) -> None:
    await world.put("sourceipclasses", pool("partner", "198.51.100.0/28"))
    await world.put("addresspools", pool("public", "203.0.113.0/28"))
    refused = refusal(world, "addresspools", pool("other", "203.0.113.8/29", "198.51.100.0/24"))
    assert isinstance(refused, Invalid)
    assert 'spec.ranges[0]: Invalid value: "203.0.113.8/29": overlaps 203.0.113.0/28 of AddressPool "public"' in str(
        refused
    )
    assert 'spec.ranges[1]: Invalid value: "198.51.100.0/24": overlaps 198.51.100.0/28 of SourceIPClass' in str(refused)
    told = str(refusal(world, "sourceipclasses", pool("new", "203.0.113.0/30"), "ExternalReferences"))
    assert 'overlaps 203.0.113.0/28 of AddressPool "public"' in told
    world.admit("addresspools", pool("public", "203.0.113.0/27"), PLUGIN, old=pool("public", "203.0.113.0/28"))
    # A class and a pool of one name are two objects.
    refusal(world, "addresspools", pool("partner", "198.51.100.0/28"))


async def test_a_pool_gives_up_no_address_that_is_held_or_resting(world: World) -> None:
    old = await world.put("addresspools", pool("public", "203.0.113.0/28"))
    await world.put("publicaddresses", held("203.0.113.7"))
    last = {"kind": "Workload", "namespace": "a", "name": "b"}
    resting = held("203.0.113.8", status={"phase": "Quarantined", "lastClaim": last})
    del resting["spec"]["claimRef"]
    await world.put("publicaddresses", resting)
    refused = refusal(world, "addresspools", pool("public", "203.0.113.0/30"), old=old)
    assert isinstance(refused, Conflict)
    assert "203.0.113.7 (Service team/web), 203.0.113.8 (resting after Workload a/b)" in str(refused)


async def test_an_address_lies_in_its_pool(world: World) -> None:
    await world.put("addresspools", pool("public", "203.0.113.0/28"))
    world.admit("publicaddresses", held("203.0.113.7"), PLUGIN)
    told = str(refusal(world, "publicaddresses", held("203.0.113.77")))
    assert 'must be in a range of AddressPool "public"' in told


@pytest.mark.parametrize("plural", ["services", "workloads"])
async def test_a_pool_is_for_those_who_may_use_it(world: World, plural: str) -> None:
    made = service if plural == "services" else workload
    refused = refusal(world, plural, made(**{ANNOTATION_POOL: "public"}), user=JANE)
    assert f'metadata.annotations[{ANNOTATION_POOL}]: Forbidden: you may not use AddressPool "public"' in str(refused)
    rule = {"apiGroups": ["networking.datumapis.com"], "resources": ["addresspools"], "resourceNames": ["public"]}
    await world.put("roles", {"metadata": {"name": "r", "namespace": "team"}, "rules": [{**rule, "verbs": ["use"]}]})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    binding = {"metadata": {"name": "r", "namespace": "team"}, "roleRef": reference, "subjects": [subject]}
    await world.put("rolebindings", binding)
    await world.settle()
    world.admit(plural, made(**{ANNOTATION_POOL: "public"}), PLUGIN, user=JANE)
    refusal(world, plural, made(**{ANNOTATION_POOL: "other"}), user=JANE)
    stored = made(**{ANNOTATION_POOL: "other"})
    world.admit(plural, copy.deepcopy(stored), PLUGIN, old=stored, user=JANE)


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (ANNOTATION_ADDRESSES, "203.0.113.5,203.0.113.6", "at most one IPv4 address"),
        (ANNOTATION_ADDRESSES, "203.0.113.5,", "must be a valid IP"),
        (ANNOTATION_ADDRESSES, "1" * 300, "at most two addresses"),
        (ANNOTATION_SHARED, "", "must not be empty"),
        (ANNOTATION_SHARED, "a b", "a valid label must be"),
        (ANNOTATION_POOL, "Not a name", "RFC 1123"),
    ],
)
async def test_a_bad_annotation_is_named(world: World, annotation: str, value: str, told: str) -> None:
    refused = refusal(world, "services", service(**{annotation: value}))
    assert f"metadata.annotations[{annotation}]" in str(refused)
    assert told in str(refused)


async def test_an_annotation_without_effect_is_a_warning(world: World) -> None:
    addresses = {ANNOTATION_ADDRESSES: "203.0.113.5,2001:db8::5"}
    assert not world.admit("services", service(**addresses), PLUGIN).warnings
    warned = world.admit("services", service("ClusterIP", **addresses), PLUGIN).warnings
    assert len(warned) == 1
    assert "has no effect" in warned[0]


async def test_anycast_without_a_readiness_probe_is_a_warning(world: World) -> None:
    anycast = {"compute.datumapis.com/enable-anycast": "true"}
    assert not world.admit("workloads", workload(**anycast), PLUGIN).warnings
    assert not world.admit("workloads", unprobed(), PLUGIN).warnings
    warned = world.admit("workloads", unprobed(**anycast), PLUGIN).warnings
    assert "has no readinessProbe" in warned[0]
    refused = refusal(world, "workloads", workload(**{"compute.datumapis.com/enable-anycast": "yes"}))
    assert 'supported values: "true", "false"' in str(refused)


async def test_with_the_gate_off_no_object_of_the_kinds_is_created(world: World) -> None:
    gate = IngressRejection()
    for plural in ("addresspools", "publicaddresses", "bgppeers"):
        resource = world.resource(plural)
        assert gate.applies_to(resource, "", "CREATE")
        assert not gate.applies_to(resource, "", "UPDATE")
        with pytest.raises(Forbidden, match="--feature-gates WayIn=true"):
            gate.validate(Attributes("CREATE", resource, "", "", "x", {"metadata": {"name": "x"}}, None, ADMIN))
    assert not gate.applies_to(world.resource("services"), "", "CREATE")


def address(*nodes: Object, **status: Any) -> Object:
    metadata = {"name": "203.0.113.5"}
    return {
        "metadata": metadata,
        "spec": {"address": "203.0.113.5", "poolName": "public"},
        "status": {"nodes": list(nodes), **status},
    }


OTHER = {"name": "sea-0", "location": "sea", "announcing": True}
OWN = {"name": "dfw-0", "location": "dfw", "announcing": True, "via": "tor"}


async def node(world: World, **labels: str) -> None:
    labels = {"topology.datum.net/location": "dfw", **labels}
    await world.put("nodes", {"metadata": {"name": "dfw-0", "labels": labels}})
    await world.put("addresspools", pool("public", "203.0.113.0/28"))


async def test_a_gateway_reports_its_own_entry_of_an_address(world: World) -> None:
    await node(world, **{"submariner.io/gateway": "true"})
    for new, old in (((OTHER, OWN), (OTHER,)), ((OTHER,), (OTHER, OWN)), ((OWN,), ({**OWN, "announcing": False},))):
        world.admit(
            "publicaddresses", address(*new), "NodeRestriction", old=address(*old), subresource="status", user=NODE
        )


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (address(), "only update its own entry"),
        (address({**OTHER, "announcing": False}), "only update its own entry"),
        (address(OTHER, {"name": "lhr-0"}), "only update its own entry"),
        (address(OTHER, phase="Available"), "only update its own entry"),
        (address(OTHER, {**OWN, "location": "lhr", "announcing": False}), "the Location of the node"),
        (address(OTHER, OWN), "does not choose the node"),
    ],
)
async def test_a_node_reports_nothing_else_of_an_address(world: World, new: Object, told: str) -> None:
    await node(world)
    refused = refusal(
        world,
        "publicaddresses",
        copy.deepcopy(new),
        "NodeRestriction",
        old=address(OTHER),
        subresource="status",
        user=NODE,
    )
    assert isinstance(refused, Forbidden)
    assert told in str(refused)


async def test_a_node_writes_no_spec_of_an_address(world: World) -> None:
    await node(world)
    for plural in ("publicaddresses", "bgppeers"):
        refused = refusal(world, plural, address(), "NodeRestriction", old=address(), user=NODE)
        assert "can only update the status" in str(refused)


async def test_a_node_reports_only_sessions_that_it_should_have(world: World) -> None:
    await node(world, **{"submariner.io/gateway": "true"})
    spec = {"address": "192.0.2.1", "asn": 1, "localASN": 2}

    def peer(*locations: str, nodes: tuple[Object, ...] = ()) -> Object:
        status = {"nodes": list(nodes)}
        return {"metadata": {"name": "tor"}, "spec": {**spec, "locations": list(locations)}, "status": status}

    mine = ({"name": "dfw-0", "state": "Established"},)

    def write(new: Object, old: Object) -> None:
        world.admit("bgppeers", new, "NodeRestriction", old=old, subresource="status", user=NODE)

    write(peer("dfw", nodes=mine), peer("dfw"))
    write(peer("sea"), peer("sea", nodes=mine))
    with pytest.raises(Forbidden) as refused:
        write(peer("sea", nodes=mine), peer("sea"))
    assert "choose it by locations and nodeSelector" in str(refused.value)
