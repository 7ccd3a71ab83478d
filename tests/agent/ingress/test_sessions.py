"""A node's BGP sessions, from BGPPeers, pools, labels and interfaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tarmac.agent.ingress.compiling import IngressObjects
from tarmac.agent.ingress.servicefacts import OwnNode
from tarmac.agent.ingress.sessions import compile_speaker
from tarmac.api.declare import decode
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.datapath.speaker import BgpSession, RoutedRanges, SpeakerState
from tests.agent.ingress.test_compiling import GATEWAY, HERE, pool

ROUTER = "192.0.2.254"
RANGES = ("192.0.2.0/25", "2001:db8::10/127")
ROUTED = {"public": pool(announce="bgp"), "lan": pool()}


def peer(name: str = "edge", **spec: Any) -> BGPPeer:
    return decode(
        BGPPeer, {"metadata": {"name": name}, "spec": {"address": ROUTER, "asn": 65001, "localASN": 65010} | spec}
    )


def sessions(*peers: BGPPeer, **changes: Any):
    objects = IngressObjects(pools=ROUTED, peers={each.metadata.name: each for each in peers}, node=GATEWAY)
    return compile_speaker(changes.pop("here", HERE), replace(objects, **changes))


def test_a_peer_gets_a_session_with_the_pools_that_are_announced_by_bgp():
    found = sessions(peer())
    own = BgpSession("edge", ROUTER, 65001, 65010, (4,), (RoutedRanges(RANGES),), restart=60, checks_ttl=True)
    assert found.state == SpeakerState("198.18.0.1", (own,))
    assert found.peers == {"public": ["edge"]}
    assert sessions().state.sessions == ()


def test_only_selected_nodes_have_a_session_and_only_gateways_of_a_pool_announce_it():
    assert sessions(peer(), node=OwnNode()).state.sessions == ()
    assert sessions(peer(locations=["sea"])).state.sessions == ()
    racks = {"matchLabels": {"rack": "a"}}
    found = sessions(peer(nodeSelector=racks), node=OwnNode({"rack": "a"}))
    assert [each.pools for each in found.state.sessions] == [()]
    assert found.peers == {}, "the node is no gateway of the pool"
    assert sessions(peer(pools=["other"])).state.sessions[0].pools == ()


def test_communities_of_pool_and_peer_are_joined_and_the_preference_of_the_peer_is_kept_apart():
    pools = {"public": pool(announce="bgp", bgp={"communities": ["65000:1"], "largeCommunities": ["1:2:3"]})}
    found = sessions(peer(communities=["65000:2", "65000:1"], asn=65010, localPreference=7), pools=pools)
    (own,) = found.state.sessions
    assert own.pools[0].communities == ((65000, 1), (1, 2, 3), (65000, 2))
    assert own.local_preference == 7


def test_routes_of_the_other_family_have_an_address_of_the_routers_segment_as_next_hop():
    both = peer(families=["IPv4", "IPv6"])
    links = {"eth0": ["198.18.0.1/24", "fd99::1/64"], "outside0": ["192.0.2.201/24", "fe80::1/64", "2001:db8::201/64"]}
    assert sessions(both, here=HERE._replace(interfaces=links)).state.sessions[0].next_hops == ((6, "2001:db8::201"),)
    found = sessions(both)
    assert found.state.sessions == ()
    assert "no IPv6 address" in found.errors["edge"]


def test_a_session_waits_for_its_password():
    secured = peer(passwordSecret="bgp")
    found = sessions(secured, peer("open"))
    assert [each.name for each in found.state.sessions] == ["open"], "one bad peer stops no other"
    assert found.errors == {"edge": "Secret kube-system/bgp has no key password to read"}
    assert sessions(secured, passwords={"bgp": "secret"}).state.sessions[0].password == "secret"


def test_bfd_and_multihop_have_their_defaults():
    fast = sessions(peer(bfd={})).state.sessions[0]
    assert (fast.bfd, fast.restart) == ((0.3, 3), 0), "BFD ends with the speaker, and would end a restart"
    far = sessions(peer(multihop=True, holdTime="30s", port=1790, maxPrefixes=5, sourceAddress="192.0.2.201"))
    (own,) = far.state.sessions
    assert (own.multihop, own.checks_ttl, own.hold_time, own.port, own.max_prefixes) == (True, False, 30, 1790, 5)
    assert own.source == "192.0.2.201"


def test_hostile_addresses_never_become_configuration():
    """Admission refuses them; a server without its rules would not."""
    bad = [peer("a", address="192.0.2.254; }"), peer("b", sourceAddress="1.2.3.4 as 7")]
    bad.append(peer("c", communities=["1:2); accept; #"]))
    found = sessions(*bad)
    assert found.state.sessions == ()
    assert found.errors.keys() == {"a", "b", "c"}


def test_a_node_without_ipv4_gets_a_router_id_of_its_name():
    six = HERE._replace(address="fd99::1", interfaces={"eth0": ["fd99::1/64"]})
    made = [sessions(peer(address="fd99::fe"), here=six._replace(name=name)).state.router_id for name in ("n1", "n2")]
    assert made[0] != made[1]
    assert all(each.count(".") == 3 for each in made)
