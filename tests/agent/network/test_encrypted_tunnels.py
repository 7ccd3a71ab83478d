"""Encryption of tunnels depends on the Networks' requirements, the nodes' places and the agents' abilities."""

from __future__ import annotations

import pytest

from tarmac.agent.network.compiler.instancetunnels import instance_tunnels, keyless
from tarmac.agent.network.tunnels.means import TunnelMeans
from tarmac.api.networking.network import IPAM, Encryption, Network, NetworkSpec
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.networking.tunnels import NodeTunnel, read_tunnel
from tarmac.api.shared import ObjectMeta
from tarmac.base.clock import ManualClock
from tarmac.datapath.egress import EncryptedPeer, InstanceTunnels, Means
from tarmac.datapath.fake import FakeDatapath
from tarmac.datapath.interface import NetworkState, Remote

HERE, NEAR, FAR, OLD, UNKNOWN = (f"192.0.2.{number}" for number in range(1, 6))


def endpoint(name: str, address: str, location: str, encryption: str = "kernel", key: str = "") -> TunnelEndpoint:
    metadata = ObjectMeta(name)
    key = key or (f"key of {name}" if encryption in ("kernel", "userspace") else "")
    return TunnelEndpoint(metadata, [address], location, ready=True, encryption=encryption, public_key=key)


ENDPOINTS = {
    "here": endpoint("here", HERE, "dfw"),
    "near": endpoint("near", NEAR, "dfw"),
    "far": endpoint("far", FAR, "lhr"),
    "old": endpoint("old", OLD, "sea", encryption=""),
}


def states(*remotes: str) -> list[NetworkState]:
    return [NetworkState("shop/default", 7, 1400, remotes=tuple(Remote(each, ()) for each in remotes))]


def networks(encryption: Encryption) -> dict[str, Network]:
    spec = NetworkSpec(IPAM("Auto"), encryption=encryption)
    return {"shop/default": Network(ObjectMeta("default", "shop"), spec)}


def compiled(encryption: Encryption, *remotes: str, **endpoints: TunnelEndpoint) -> InstanceTunnels:
    return instance_tunnels("here", states(*remotes), networks(encryption), {**ENDPOINTS, **endpoints})


def test_between_locations_nodes_of_others_are_peers_and_those_of_this_one_are_not() -> None:
    found = compiled("BetweenLocations", NEAR, FAR)
    assert found == InstanceTunnels(frozenset(), frozenset({7}), frozenset({NEAR}), (EncryptedPeer(FAR, "key of far"),))
    assert [found.encrypts(7, each) for each in (NEAR, FAR, UNKNOWN)] == [False, True, True]
    assert not found.encrypts(8, FAR)


def test_always_and_never() -> None:
    found = compiled("Always", NEAR, FAR)
    assert found.peers == (EncryptedPeer(NEAR, "key of near"), EncryptedPeer(FAR, "key of far"))
    assert found.encrypts(7, NEAR)
    assert compiled("Never", NEAR, FAR) == InstanceTunnels()


def test_a_node_with_an_older_agent_is_spoken_with_as_before_between_locations_only() -> None:
    assert not compiled("BetweenLocations", OLD).encrypts(7, OLD)
    closed = compiled("Always", OLD)
    assert closed.peers == (EncryptedPeer(OLD, ""),)
    assert keyless(closed, ENDPOINTS) == ["old"]


def test_a_node_that_cannot_encrypt_or_is_not_known_is_closed() -> None:
    bare = endpoint("far", FAR, "lhr", encryption="none")
    found = compiled("BetweenLocations", FAR, UNKNOWN, far=bare)
    assert found.peers == (EncryptedPeer(FAR, ""), EncryptedPeer(UNKNOWN, ""))
    assert keyless(found, {**ENDPOINTS, "far": bare}) == [UNKNOWN, "far"]


def test_an_address_that_two_nodes_claim_is_closed() -> None:
    found = compiled("BetweenLocations", FAR, thief=endpoint("thief", FAR, "dfw", key="mine"))
    assert (found.plain, found.peers) == (frozenset(), (EncryptedPeer(FAR, ""),))


def test_nodes_without_a_location_are_not_near_each_other() -> None:
    lost = endpoint("far", FAR, "")
    assert compiled("BetweenLocations", FAR, here=endpoint("here", HERE, ""), far=lost).encrypts(7, FAR)


def test_a_network_that_is_gone_is_encrypted_while_its_pods_are_there() -> None:
    assert instance_tunnels("here", states(FAR), {}, ENDPOINTS).encrypts(7, FAR)


@pytest.mark.parametrize(("means", "key"), [("kernel", "own key"), ("userspace", "own key"), ("none", "")])
async def test_a_node_publishes_its_key_once_it_can_encrypt(means: Means, key: str) -> None:
    datapath, changes = FakeDatapath(), list[str]()
    datapath.external.encryption = means
    published = TunnelMeans(datapath.tunnels, "own key", ManualClock(), lambda: changes.append("changed"))
    assert read_tunnel(published.annotation("")) == NodeTunnel(True, "none"), "closed, not taken for an older agent"
    assert published.annotation('{"publicKey":"own key"}') == "", "as before the restart of the agent"
    await published.update()
    await published.update()
    assert read_tunnel(published.annotation("")) == NodeTunnel(True, means, key)
    assert changes == ["changed"]
