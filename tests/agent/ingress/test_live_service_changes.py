"""Every field of a live Service with a public address, changed: what clients outside notice, and what they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARED
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tarmac.client.targets.untyped import SERVICES
from tarmac.datapath.ingress import IngressAddress, OpenPort
from tests.agent.egress.nodes import until
from tests.agent.ingress.test_bgp_agents import announcing, prepare
from tests.agent.ingress.test_ingress_agents import ADDRESSES, CLIENT, PUBLIC, Town, town

pytestmark = pytest.mark.timeout(60)

BOTH = ["n2", "n3"]
Check = Callable[[Town], bool]


def rules(world: Town, node: str = "n2") -> IngressAddress | None:
    """Return the rules of the address on a node."""
    every = world.nodes[node].datapath.ingress.state.addresses
    return next((each for each in every if each.address == PUBLIC), None)


def ports(world: Town, node: str = "n2") -> tuple[OpenPort, ...]:
    found = rules(world, node)
    return found.ports if found is not None else ()


def answered(world: Town, port: int = 80, protocol: str = "TCP", client: str = CLIENT[0]) -> bool:
    return world.nodes["n2"].datapath.ingress.answers((client, 4000), PUBLIC, port, protocol) is not None


async def change(world: Town, patch: JsonObject) -> JsonObject:
    return await world.admin.resource(SERVICES).patch("web", patch, "default")


async def shown(world: Town) -> list[str]:
    """Return the addresses in the status of the Service."""
    found = await world.admin.resource(SERVICES).get("web", "default")
    return [each["ip"] for each in (found["status"].get("loadBalancer") or {}).get("ingress") or ()]


async def until_shown(world: Town, wanted: list[str]) -> None:
    async with asyncio.timeout(20):
        while await shown(world) != wanted:
            await asyncio.sleep(0.02)


def a_port(**fields: object) -> JsonObject:
    own = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
    return {"spec": {"ports": [own | fields]}}


TAKES_EFFECT: dict[str, tuple[JsonObject, Check]] = {
    "port": (a_port(port=81), lambda world: answered(world, 81) and not answered(world, 80)),
    "targetPort": (
        a_port(targetPort=9090),
        lambda world: {own.port for each in ports(world, "n1") for own in each.backends} == {9090},
    ),
    "protocol": (a_port(protocol="UDP"), lambda world: answered(world, protocol="UDP") and not answered(world)),
    "sessionAffinity": (
        {"spec": {"sessionAffinity": "ClientIP"}},
        lambda world: [each.affinity for each in ports(world)] == [True],
    ),
    "loadBalancerSourceRanges": (
        {"spec": {"loadBalancerSourceRanges": ["198.51.100.0/24"]}},
        lambda world: not answered(world) and answered(world, client="198.51.100.7"),
    ),
    "selector": (
        {"spec": {"selector": {"app": "other"}}},
        lambda world: announcing(world) == [] and not answered(world),
    ),
    "externalTrafficPolicy": (
        {"spec": {"externalTrafficPolicy": "Local"}},
        lambda world: announcing(world) == [],  # the pod is on n1, which is no gateway
    ),
    "type NodePort": ({"spec": {"type": "NodePort"}}, lambda world: announcing(world) == [] and rules(world) is None),
    "type ClusterIP": ({"spec": {"type": "ClusterIP"}}, lambda world: announcing(world) == [] and rules(world) is None),
}


@pytest.mark.parametrize("field", sorted(TAKES_EFFECT))
async def test_a_changed_field_takes_effect_at_every_gateway(tmp_path: Path, field: str) -> None:
    patch, holds = TAKES_EFFECT[field]
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH and answered(world))
        await until_shown(world, [PUBLIC])
        await change(world, patch)
        await until(lambda: holds(world))
        if field.startswith("type"):
            await until_shown(world, [])
            phases = {each["status"]["phase"] for each in (await world.admin.resource(ADDRESSES).list()).items}
            assert phases <= {"Released", "Quarantined"}, "it rests"
        else:
            assert await shown(world) == [PUBLIC], "the address stays"


NO_EFFECT: dict[str, JsonObject] = {
    "loadBalancerIP": {"spec": {"loadBalancerIP": "192.0.2.20"}},
    "internalTrafficPolicy": {"spec": {"internalTrafficPolicy": "Local"}},
    "trafficDistribution": {"spec": {"trafficDistribution": "PreferClose"}},
    "externalIPs": {"spec": {"externalIPs": ["198.51.100.9"]}},
    "appProtocol": a_port(appProtocol="http"),
    "port name": a_port(name="web"),
    "allocateLoadBalancerNodePorts": {"spec": {"allocateLoadBalancerNodePorts": False}},
    "annotation addresses": {"metadata": {"annotations": {ANNOTATION_ADDRESSES: "192.0.2.20"}}},
    "annotation pool": {"metadata": {"annotations": {ANNOTATION_POOL: "public"}}},
    "annotation shared": {"metadata": {"annotations": {ANNOTATION_SHARED: "key"}}},
}


@pytest.mark.parametrize("field", sorted(NO_EFFECT))
async def test_other_fields_leave_the_address_and_its_clients_alone(tmp_path: Path, field: str) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH and answered(world))
        await until_shown(world, [PUBLIC])
        await change(world, NO_EFFECT[field])
        # A change after it has reached all agents: by then they have seen the first one, too.
        await change(world, {"spec": {"sessionAffinity": "ClientIP"}})
        await until(lambda: all([each.affinity for each in ports(world, node)] == [True] for node in BOTH))
        await until(lambda: answered(world))
        assert (announcing(world), await shown(world)) == (BOTH, [PUBLIC])


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"spec": {"loadBalancerClass": "example.com/other"}}, "spec.loadBalancerClass"),
        ({"spec": {"clusterIP": "10.96.7.7"}}, "spec.clusterIPs[0]"),
    ],
    ids=["loadBalancerClass", "clusterIP"],
)
async def test_fields_that_cannot_change_are_refused_and_calls_go_on(
    tmp_path: Path, patch: JsonObject, path: str
) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH and answered(world))
        with pytest.raises(Invalid) as refused:
            await change(world, patch)
        assert path in str(refused.value)
        assert (announcing(world), answered(world)) == (BOTH, True)


async def test_not_ready_pods_are_used_when_they_are_published(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH)
        await world.ready("web-1", "10.128.0.5", ready=False)
        await until(lambda: announcing(world) == [])
        await change(world, {"spec": {"publishNotReadyAddresses": True}})
        await until(lambda: announcing(world) == BOTH and answered(world))


async def test_a_type_that_changes_back_gets_its_address_again(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH)
        await change(world, {"spec": {"type": "ClusterIP"}})
        await until_shown(world, [])
        await change(world, {"spec": {"type": "LoadBalancer"}})
        await until(lambda: announcing(world) == BOTH and answered(world))
        await until_shown(world, [PUBLIC])


async def test_a_class_of_another_implementation_gets_no_address(tmp_path: Path) -> None:
    async with town(tmp_path) as world:
        await prepare(world)
        await until(lambda: announcing(world) == BOTH)
        spec = {
            "type": "LoadBalancer",
            "loadBalancerClass": "example.com/other",
            "selector": {"app": "web"},
            "ports": [{"port": 80}],
        }
        await world.planet.create(SERVICES, "theirs", spec)
        # The next Service has been served, so the controller has passed over this one.
        ours = spec | {"loadBalancerClass": "networking.datumapis.com/pool", "ports": [{"port": 81}]}
        await world.planet.create(SERVICES, "ours", ours)
        async with asyncio.timeout(20):
            while "ours" not in (holders := await held_by(world)):
                await asyncio.sleep(0.02)
        assert holders == {"web", "ours"}


async def held_by(world: Town) -> set[str]:
    return {each["spec"]["claimRef"]["name"] for each in (await world.admin.resource(ADDRESSES).list()).items}
