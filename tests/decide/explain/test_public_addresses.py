"""PublicAddresses, AddressPools and BGPPeers are explained by holders, gateways, free addresses and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation
from tarmac.decide.explain import EXPLAINERS, looked_at
from tarmac.decide.snapshot.egressobjects import NAMESPACES
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS, INGRESS, PUBLIC_ADDRESSES

from .test_services import ADDRESS, put_address, put_node, put_pool, told
from .world import Scene

GATEWAY = {"submariner.io/gateway": "true"}


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.put(NAMESPACES.resource, {"metadata": {"name": "default", "uid": "n1"}})
    put_pool(made)
    return made


def why(scene: Scene, resource: str, name: str) -> Explanation:
    found = EXPLAINERS[resource](scene.world, name)
    assert found is not None
    return found


def put_peer(scene: Scene, *nodes: dict[str, Any]) -> None:
    spec = {"address": "192.0.2.254", "asn": 65001, "localASN": 65010}
    scene.put(BGP_PEERS.resource, {"metadata": {"name": "edge"}, "spec": spec, "status": {"nodes": list(nodes)}})


def test_an_announced_address_names_its_holder_and_the_announcing_node(scene: Scene) -> None:
    put_node(scene, "dfw-0", **GATEWAY)
    put_address(scene, {"name": "dfw-0", "location": "dfw", "announcing": True, "via": "outside0"})
    found = why(scene, PUBLIC_ADDRESSES.resource, ADDRESS)
    assert found.sentence == f"PublicAddress {ADDRESS} is Bound."
    said = {line.rule: line.message for line in found.verdicts}
    assert said["holder"] == "It is held by Service default/web."
    assert f"dfw-0 announces {ADDRESS} by outside0" in said["announced"]


def test_a_resting_address_says_of_whom_and_until_when(scene: Scene) -> None:
    status = {
        "phase": "Quarantined",
        "quarantinedUntil": "2026-01-01T00:00:00Z",
        "lastClaim": {"kind": "Service", "namespace": "default", "name": "web"},
    }
    spec = {"address": ADDRESS, "poolName": "public"}
    scene.put(PUBLIC_ADDRESSES.resource, {"metadata": {"name": ADDRESS}, "spec": spec, "status": status})
    found = why(scene, PUBLIC_ADDRESSES.resource, ADDRESS)
    (line,) = found.verdicts
    assert (line.reason, line.message) == (
        "AddressQuarantined",
        "It was that of Service default/web and rests until 2026-01-01T00:00:00Z.",
    )


@pytest.mark.parametrize("range_of_pool", [None, "198.51.100.0/24"])
def test_an_address_without_its_pool_or_range_says_so(scene: Scene, range_of_pool: str | None) -> None:
    made = Scene()
    if range_of_pool is not None:
        put_pool(made, ranges=[{"cidr": range_of_pool}])
    put_address(made)
    found = why(made, PUBLIC_ADDRESSES.resource, ADDRESS)
    assert told(found)["pool"] == ("No", "PoolNotFound")
    assert found.change


def test_a_pool_counts_its_addresses_and_names_what_is_missing(scene: Scene) -> None:
    put_address(scene)
    found = why(scene, ADDRESS_POOLS.resource, "public")
    assert found.sentence.startswith("AddressPool public cannot be used: ")
    assert told(found)["ready"] == ("No", "NoGateway")
    put_node(scene, "dfw-0", **GATEWAY)
    found = why(scene, ADDRESS_POOLS.resource, "public")
    assert told(found)["ready"][0] == "Yes"
    (use,) = [line.message for line in found.verdicts if line.rule == "addresses"]
    assert use.endswith("addresses are free, 1 are held, 0 rest.")


def test_a_pool_that_is_used_up_or_closed_names_the_change(scene: Scene) -> None:
    put_node(scene, "dfw-0", **GATEWAY)
    put_pool(scene, ranges=[{"start": ADDRESS, "end": ADDRESS}], allowedNamespaces={})
    put_address(scene)
    found = why(scene, ADDRESS_POOLS.resource, "public")
    assert told(found)["addresses"] == ("No", "PoolExhausted")
    assert told(found)["namespaces"] == ("No", "NotAuthorized")


def test_a_pool_and_a_peer_without_a_speaker_name_the_nodes(scene: Scene) -> None:
    put_pool(scene, announce="bgp")
    put_node(scene, "dfw-0", **GATEWAY)
    put_peer(scene, {"name": "dfw-0", "state": "SpeakerMissing", "lastError": "the node has no bird"})
    pool, peer = why(scene, ADDRESS_POOLS.resource, "public"), why(scene, BGP_PEERS.resource, "edge")
    assert told(pool)["ready"] == ("No", "SpeakerMissing")
    assert told(peer)["established"] == ("No", "SpeakerMissing")
    assert "Install bird2" in pool.change
    assert "Install bird2" in peer.change


def test_a_peer_has_a_line_for_each_node_with_its_error(scene: Scene) -> None:
    put_node(scene, "dfw-0", **GATEWAY)
    put_node(scene, "sea-0", **GATEWAY)
    put_node(scene, "lhr-0")
    put_peer(
        scene,
        {"name": "dfw-0", "state": "Established", "announced": 2},
        {"name": "sea-0", "state": "Active", "lastError": "Socket: Connection refused"},
    )
    found = why(scene, BGP_PEERS.resource, "edge")
    assert found.sentence.startswith("BGPPeer edge lacks sessions: ")
    lines = {line.node: line.message for line in found.verdicts if line.rule == "session"}
    assert lines == {
        "dfw-0": "dfw-0 has a session and announces 2 addresses.",
        "sea-0": "sea-0 has no session: Socket: Connection refused.",
    }


def test_explanations_of_public_addresses_read_the_same_resources() -> None:
    for each in (ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES):
        assert looked_at(each.resource) == INGRESS
        assert EXPLAINERS[each.resource](Scene().world, "none") is None
