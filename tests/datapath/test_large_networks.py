"""A very large Network, or one that the kernel rejects, does not delay pods of other Networks on the node."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from tarmac.agent.network.compiler import NetworkCompiler, NetworkSnapshot
from tarmac.agent.network.failures import closed
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.datapath.linux.nftables import NftablesFault
from tarmac.decide.reach.policies import DENIED
from tarmac.decide.reach.policyrules import Allowance, Rules, ServiceFrontend
from tests.agent.network.test_compiling import member, policy
from tests.agent.network.test_growth import holes
from tests.datapath.test_datapath_contract import B6, NET, PLAIN, A, B
from tests.datapath.worlds import RealWorld, nic

pytestmark = [pytest.mark.root]

EXCEPTIONS = 30_000
OTHER = NetworkState("bank/default", 4098, 1460, rules={A: Rules()}, pods={A: "uid-other"})
ATTACHED_WITHIN = 5.0
"""Seconds, on a shared machine; usually a twentieth of a second."""


def large() -> NetworkState:
    """Return a network whose pods hear from everywhere but 30,000 ranges, two of which contain its own pods."""
    excluded = (f"{B}/32", *holes(EXCEPTIONS - 1))
    rules = Rules((Allowance(("0.0.0.0/0",), excluded), Allowance(("::/0",), (f"{B6}/128",))))
    return replace(PLAIN, rules={A: rules, B: Rules()})


def on(*networks: NetworkState) -> NodeNetworks:
    return NodeNetworks(("198.18.0.1",), networks)


async def attaching(real: RealWorld, sandbox_id: str, network: str, address: str = A) -> float:
    """Attach a pod to a network; return the seconds."""
    namespace = real.lab.namespace(f"pod-{sandbox_id}")
    began = time.monotonic()
    await real.node(1).attach(sandbox_id, str(namespace), [nic(network, f"{address}/20", vni=4098)])
    return time.monotonic() - began


async def test_other_pods_are_attached_while_thirty_thousand_exceptions_change(real: RealWorld) -> None:
    node = real.node(1)
    assert await node.apply(on(OTHER)) == {}
    took: list[float] = []
    for number, state in enumerate((large(), replace(PLAIN, rules={A: Rules(), B: Rules()}))):
        work = asyncio.create_task(node.apply(on(state, OTHER)))
        for each in range(3):
            took.append(await attaching(real, f"o{number}{each}", OTHER.name, f"10.128.1.{number * 10 + each}"))
        assert await work == {}
    assert max(took) < ATTACHED_WITHIN


async def test_thirty_thousand_exceptions_are_exactly_those(real: RealWorld) -> None:
    await real.node(1).apply(on(large()))
    for sandbox_id, address in (("a", A), ("b", B), ("c", "10.128.1.7")):  # b and its neighbours are in excluded ranges
        await real.pod(1, sandbox_id, [nic(NET, f"{address}/20")])
    await real.serve("a", 80)
    assert await real.reaches("c", A) == "a"
    assert await real.reaches("b", A, hope=False) is None


@pytest.mark.serial
async def test_a_policy_as_large_as_that_is_closed_and_gone_at_once_when_it_is_deleted(real: RealWorld) -> None:
    block = {"cidr": "0.0.0.0/0", "except": holes(EXCEPTIONS)}
    spec: Any = {"selector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
    members = [member("a", A), member("other", A, network="bank/default", namespace="bank")]
    compiler, node = NetworkCompiler("here", time.monotonic), real.node(1)
    for policies, expected in (([policy(spec)], DENIED), ([], Rules())):
        found = compiler.compile(NetworkSnapshot(members=members, policies=policies), ("198.18.0.1",)).networks.networks
        assert {each.name: each.rules[A] for each in found} == {"shop/default": expected, "bank/default": Rules()}
        began = time.monotonic()
        assert await node.apply(on(*(replace(each, vni=5000 + number) for number, each in enumerate(found)))) == {}
        assert time.monotonic() - began < ATTACHED_WITHIN


async def test_a_network_that_the_kernel_refuses_fails_alone_and_recovers(real: RealWorld) -> None:
    node, open_ = real.node(1), replace(PLAIN, rules={A: Rules(), B: Rules()})
    wrong = replace(open_, services=(ServiceFrontend("10.96.0.9", "TCP", 80, (("fd20::1", 80),)),))
    failures = await node.apply(on(wrong, OTHER))
    assert list(failures) == [NET]
    assert isinstance(failures[NET], NftablesFault)
    assert await attaching(real, "other", OTHER.name) < ATTACHED_WITHIN
    assert await node.apply(on(closed(wrong), OTHER)) == {}
    for sandbox_id, address in (("a", A), ("b", B)):
        await real.pod(1, sandbox_id, [nic(NET, f"{address}/20")])
    await real.serve("a", 80)
    assert await real.reaches("b", A, hope=False) is None
    assert await node.apply(on(open_, OTHER)) == {}
    assert await real.reaches("b", A) == "a"


async def test_a_network_with_a_nodes_address_is_in_nobodys_place_but_its_own_pods(real: RealWorld) -> None:
    """A Network from before such ranges were refused: the node, and pods of other networks, reach the real machine."""
    theirs = NetworkState("evil/default", 4099, 1460, ranges=("198.18.0.0/24",), rules={"198.18.0.9": Rules()})
    await real.node(1).apply(on(PLAIN, theirs))
    await real.pod(1, "a", [nic(NET, f"{A}/20")])
    await real.pod(1, "evil", [nic(theirs.name, "198.18.0.9/24", vni=4099)])
    await real.serve("evil", 80)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"the machine")
        writer.close()

    listening = real.lab.socket(real.lab.machine(9), socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("198.18.0.9", 80))
    async with await asyncio.start_server(answer, sock=listening):
        assert await real.reaches("a", "198.18.0.9") == "the machine", "from another network"
        assert await real.enters(1, "198.18.0.9") == "the machine", "and from the node"
