"""A Network that is too large, or whose rules the kernel rejects, is closed without effect on others, and recovers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import API_VERSION
from tarmac.api.status import ApiError, Invalid, TooLarge
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS, NAMESPACES, NETWORK_POLICIES
from tarmac.datapath.interface import HOST, NetworkState, NodeNetworks
from tarmac.decide.reach import policies
from tarmac.decide.reach.policies import DENIED
from tarmac.decide.reach.policyrules import Rules
from tests.agent.network.test_network_reconciler import NIC, World
from tests.agent.network.test_network_reconciler import world as world

OTHER = AttachedInterface(name="eth0", network="bank/default", vni=4098, mtu=1400, addresses=["10.128.0.5/20"])
LARGE = {
    "selector": {},
    "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [f"10.1.{n}.0/24" for n in range(50)]}}]}],
}


def state(world: World, name: str) -> NetworkState | None:
    return next((each for each in world.datapath.state.networks if each.name == name), None)


def rules(world: World, name: str) -> Rules | None:
    found = state(world, name)
    return found.rules.get("10.128.0.5") if found else None


class Refusing:
    """A kernel that rejects rules with exceptions while `refuses` is set."""

    def __init__(self, world: World, failure: type[Exception] = ValueError) -> None:
        self.refuses = True
        self.tried = 0
        self._failure = failure
        self._apply = world.datapath.apply

    async def apply(self, state: NodeNetworks, **options: Any) -> Mapping[str, Exception]:
        wrong = [each for each in state.networks if self.refuses and any(map(_is_wrong, each.rules.values()))]
        self.tried += bool(wrong)
        taken = tuple(each for each in state.networks if each not in wrong)
        await self._apply(NodeNetworks(state.node_addresses, taken, state.services), **options)
        return {each.name: self._failure("too much") for each in wrong}


def _is_wrong(rules: Rules) -> bool:
    return any(each.excluded for each in rules.ingress or ())


async def attached(world: World, name: str, nic: AttachedInterface) -> None:
    """Create a pod and wait until the network's rules cover it."""
    await world.pod(name, nic)
    async with asyncio.timeout(5):
        await world.keeper.wait_until_applied(await world.uid(name), [nic])


async def test_rules_that_the_kernel_refuses_close_their_network_and_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Refusing(world)
    monkeypatch.setattr(world.datapath, "apply", kernel.apply)
    await attached(world, "first", NIC)
    await world.create(NETWORK_POLICIES, "large", spec={**LARGE, "network": "default"})
    await world.until(lambda: rules(world, NIC.network) == DENIED)
    await attached(world, "other", OTHER)
    assert rules(world, OTHER.network) == Rules()
    tried = kernel.tried
    await world.until(lambda: kernel.tried > tried)  # the agent retries
    await attached(world, "late", AttachedInterface("eth0", NIC.network, 4097, 1400, addresses=["10.128.0.6/20"]))
    await world.admin.resource(NETWORK_POLICIES).delete("large", "default")
    await world.until(lambda: rules(world, NIC.network) == Rules())


async def test_a_network_that_fails_otherwise_keeps_what_it_had_until_it_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Refusing(world, OSError)
    monkeypatch.setattr(world.datapath, "apply", kernel.apply)
    await attached(world, "first", NIC)
    await world.create(NETWORK_POLICIES, "large", spec={**LARGE, "network": "default"})
    await world.until(lambda: kernel.tried > 2)
    await attached(world, "other", OTHER)
    assert NIC.network in world.keeper.networks
    kernel.refuses = False
    await world.until(lambda: (found := rules(world, NIC.network)) and _is_wrong(found))


async def test_a_network_beyond_its_limits_is_closed_with_an_event(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "MAX_RANGES", 20)
    async with asyncio.TaskGroup() as group:
        telling = group.create_task(world.keeper._failure_events._recorder.run())
        await attached(world, "first", NIC)
        await world.admin.resource(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bank"}}
        )
        await attached(world, "other", OTHER)
        await _network(world)
        await world.create(NETWORK_POLICIES, "large", spec={**LARGE, "network": "default"})
        await world.until(lambda: rules(world, NIC.network) == DENIED)
        assert rules(world, OTHER.network) == Rules()
        said = await _event(world)
        telling.cancel()
    assert said["involvedObject"]["kind"] == "Network"
    assert "default/first: more than 20 ranges of addresses and ports" in said["message"]
    await world.admin.resource(NETWORK_POLICIES).delete("large", "default")
    await world.until(lambda: rules(world, NIC.network) == Rules())


@pytest.mark.parametrize(
    ("count", "refusal", "message"),
    [
        (15_000, Invalid, "at most 2000 rules, ports, peers and exceptions together, and has 15002"),
        (30_000, TooLarge, "limit is 20000"),
    ],
)
async def test_a_policy_with_thousands_of_exceptions_is_not_taken(
    world: World, count: int, refusal: type[ApiError], message: str
) -> None:
    block = {"cidr": "10.0.0.0/8", "except": [f"10.{n >> 8}.{n & 255}.0/24" for n in range(count)]}
    with pytest.raises(refusal, match=message):
        await world.create(
            NETWORK_POLICIES, "large", spec={"selector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
        )


async def test_a_failure_outside_of_networks_delays_no_pod(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = world.datapath.apply

    async def failing(state: NodeNetworks, **options: Any) -> Mapping[str, Exception]:
        await apply(state, **options)
        return {HOST: ValueError("a Service that nobody expected")}

    monkeypatch.setattr(world.datapath, "apply", failing)
    await attached(world, "first", NIC)


async def test_pods_do_not_wait_for_networks_that_come_after_theirs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, go_on = world.datapath.apply, asyncio.Event()

    async def slow(state: NodeNetworks, **options: Any) -> Mapping[str, Exception]:
        failures = await apply(state, **options)
        if {NIC.network, OTHER.network} <= {network.name for network in state.networks}:
            await go_on.wait()  # the last network blocks
        return failures

    monkeypatch.setattr(world.datapath, "apply", slow)
    await world.pod("first", NIC)
    await attached(world, "other", OTHER)
    assert not go_on.is_set()
    go_on.set()


async def _network(world: World) -> None:
    networks = world.keeper._informers.networks.by_key
    if NIC.network not in networks:
        networks_target = dynamic(API_VERSION, "networks", "Network")
        await world.create(networks_target, "default", spec={"ipam": {"mode": "Auto"}})
    await world.until(lambda: NIC.network in networks)


async def _event(world: World) -> Any:
    async with asyncio.timeout(10):
        while True:
            for each in (await world.admin.resource(EVENTS).list("default")).items:
                if each["reason"] == "NetworkClosed":
                    return each
            await asyncio.sleep(0.02)
