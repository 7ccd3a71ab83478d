"""Announcements as nodes report them, and their effect on Services, Workloads, pools and peers."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.workload import AnycastCity
from tarmac.api.declare import Time, decode
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim
from tarmac.decide.ingress.announcing import (
    address_finding,
    anycast_cities,
    anycast_finding,
    has_conflict,
    ingress_status,
    reports,
    service_finding,
)
from tarmac.decide.ingress.pools import current_sessions, peer_finding, pool_findings, speakers
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.verdict import Refusal

GATEWAY = {"submariner.io/gateway": "true"}
NOW = Time("2026-11-19T07:00:00Z")


def node(name: str, *, ready: bool = True, gateway: bool = True, **more: Any) -> NodeView:
    city = name.partition("-")[0]
    labels = {"topology.datum.net/location": city, **(GATEWAY if gateway else {})}
    return NodeView(name, city=city.upper(), location=city, ready=ready, labels=labels, **more)


NODES = {each.name: each for each in (node("dfw-0"), node("sea-0"), node("lhr-0", ready=False))}


def pool(**spec: Any) -> AddressPool:
    spec = {"ranges": [{"cidr": "203.0.113.0/24"}], **spec}
    return decode(AddressPool, {"metadata": {"name": "public"}, "spec": spec})


def address(*nodes: dict[str, Any], number: int = 5, **spec: Any) -> PublicAddress:
    spec = {"address": f"203.0.113.{number}", "poolName": "public", **spec}
    status = {"nodes": list(nodes), "phase": "Bound"}
    return decode(PublicAddress, {"metadata": {"name": spec["address"]}, "spec": spec, "status": status})


def peer(*nodes: str, **spec: Any) -> BGPPeer:
    spec = {"address": "192.0.2.1", "asn": 1, "localASN": 2, **spec}
    status = {"nodes": [{"name": each, "state": "Established"} for each in nodes]}
    return decode(BGPPeer, {"metadata": {"name": "tor"}, "spec": spec, "status": status})


def announcing(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "announcing": True, **more}


def test_only_ready_gateways_of_the_pool_are_believed() -> None:
    told = address(*map(announcing, ("dfw-0", "sea-0", "lhr-0", "gone-0")))
    assert [each.node.name for each in reports(told, pool(), NODES)] == ["dfw-0", "sea-0"]
    assert [each.node.name for each in reports(told, pool(locations=["sea"]), NODES)] == ["sea-0"]
    assert reports(told, None, NODES) == []
    assert reports(told, pool(gatewaySelector={"matchLabels": {"rack": "1"}}), NODES) == []


def test_an_address_names_the_places_or_the_most_telling_reason() -> None:
    assert address_finding(reports(address(announcing("sea-0")), pool(), NODES)).message == "It is announced from sea."
    quiet = address({"name": "sea-0", "reason": "SelfTestFailed"}, {"name": "dfw-0", "reason": "Made\nUp"})
    found = address_finding(reports(quiet, pool(), NODES))
    assert (found.status, found.reason) == ("False", reasons.SELF_TEST_FAILED)
    assert "sea-0" in found.message
    assert "Made" not in found.message
    assert address_finding([]).reason == reasons.NOT_ANNOUNCED


def test_a_conflict_ends_when_a_gateway_announces() -> None:
    told = {"name": "sea-0", "reason": reasons.ADDRESS_CONFLICT}
    assert has_conflict(reports(address(told), pool(), NODES))
    assert not has_conflict(reports(address(told, announcing("dfw-0")), pool(), NODES))


@pytest.mark.parametrize(
    ("entries", "endpoints", "gateways", "expected"),
    [
        ([announcing("dfw-0")], 1, 2, ("True", reasons.ANNOUNCED)),
        ([], 0, 2, ("False", reasons.NO_ENDPOINTS)),
        ([], 1, 0, ("False", reasons.NO_GATEWAY)),
        ([], 1, 2, ("False", reasons.NOT_ANNOUNCED)),
        ([{"name": "dfw-0", "reason": "Draining"}], 1, 2, ("False", reasons.DRAINING)),
    ],
)
def test_a_service_is_ready_when_its_address_is_announced(
    entries: list[dict[str, Any]], endpoints: int, gateways: int, expected: tuple[str, str]
) -> None:
    claim = IngressClaim("Service", "team", "web", "u")
    held = {"203.0.113.5": reports(address(*entries), pool(), NODES)}
    found = service_finding(claim, (), held, endpoints=endpoints, gateway_count=gateways)
    assert (found.status, found.reason) == expected
    refused = service_finding(claim, (Refusal(reasons.NO_POOL, "No."),), {}, endpoints=1, gateway_count=0)
    assert refused.reason == reasons.NO_POOL


def test_an_address_once_shown_leaves_only_with_its_release() -> None:
    held = [address(number=6), address(number=5)]
    assert ingress_status(held, [], ["203.0.113.5"]) == ["203.0.113.5"]
    assert ingress_status(held, ["203.0.113.6"], []) == ["203.0.113.6"]
    assert ingress_status([], ["203.0.113.6"], []) == []


def test_cities_announce_with_the_time_of_their_last_change() -> None:
    found = reports(address(announcing("dfw-0"), {"name": "sea-0", "reason": "SelfTestFailed"}), pool(), NODES)
    before = [AnycastCity("DFW", True, 3, Time("2026-01-01T00:00:00Z"), reasons.ANNOUNCED), AnycastCity("OLD", True, 1)]
    cities = anycast_cities({"DFW": 2, "SEA": 1, "LHR": 0}, found, before, NOW)
    assert [(each.city, each.announced, each.instances, each.reason) for each in cities] == [
        ("DFW", True, 2, reasons.ANNOUNCED),
        ("SEA", False, 1, reasons.SELF_TEST_FAILED),
    ]
    assert [each.since for each in cities] == ["2026-01-01T00:00:00Z", NOW]


@pytest.mark.parametrize(
    ("cities", "peers", "expected"),
    [
        ([("DFW", True, 1), ("SEA", True, 1)], True, ("True", reasons.ANNOUNCED)),
        ([("DFW", True, 1), ("SEA", False, 1)], True, ("True", reasons.PARTLY_ANNOUNCED)),
        ([("DFW", True, 1), ("SEA", False, 0)], True, ("True", reasons.ANNOUNCED)),
        ([("DFW", False, 1)], True, ("False", reasons.NOT_ANNOUNCED)),
        ([("DFW", False, 1)], False, ("False", reasons.NO_PEER)),
        ([("DFW", False, 0)], False, ("False", reasons.NO_READY_INSTANCE)),
    ],
)
def test_anycast_is_ready_while_a_city_announces(
    cities: list[tuple[str, bool, int]], peers: bool, expected: tuple[str, str]
) -> None:
    given = [AnycastCity(city, on, count, reason=reasons.NOT_ANNOUNCED) for city, on, count in cities]
    found = anycast_finding((), [address()], given, peers=peers)
    assert (found.status, found.reason) == expected


def test_a_pool_is_ready_when_a_gateway_can_announce() -> None:
    def reason(of: AddressPool, nodes: dict[str, NodeView], *peers: BGPPeer) -> list[str]:
        return [each.reason for each in pool_findings(of, None, peers, nodes)]

    assert reason(pool(), {}) == [reasons.NO_GATEWAY] * 2
    assert reason(pool(), NODES) == [reasons.NO_OUTSIDE_INTERFACE] * 2
    facts = NodeFacts([OutsideInterface("outside0", ["203.0.113.2/24"])])
    linked = {name: node(name, facts=facts) for name in ("dfw-0", "sea-0")}
    assert reason(pool(), {"dfw-0": linked["dfw-0"]}) == [reasons.ANNOUNCED, reasons.NO_GATEWAY]
    assert reason(pool(), linked) == [reasons.ANNOUNCED, reasons.REDUNDANT]
    routed = pool(announce="bgp")
    assert reason(routed, NODES) == [reasons.NO_PEER] * 2
    assert reason(routed, NODES, peer("dfw-0", "sea-0")) == [reasons.ANNOUNCED, reasons.REDUNDANT]
    assert speakers(routed, [peer("dfw-0", "lhr-0", pools=["other"])], NODES) == set()
    overlap = Refusal(reasons.RANGE_OVERLAP, "It overlaps.")
    assert [each.reason for each in pool_findings(pool(), overlap, (), linked)] == [reasons.RANGE_OVERLAP] * 2


def test_a_peer_is_established_when_all_its_nodes_have_a_session() -> None:
    assert peer_finding(peer("dfw-0"), NODES).reason == reasons.SESSION_DOWN
    assert "sea-0" in peer_finding(peer("dfw-0"), NODES).message
    assert peer_finding(peer("dfw-0", "sea-0"), NODES).holds
    assert peer_finding(peer("dfw-0", locations=["dfw"]), NODES).holds
    assert peer_finding(peer(locations=["mars"]), NODES).reason == reasons.NO_GATEWAY
    # A session on a node outside the peer's Locations does not count, and its entry is removed.
    assert [each.name for each in current_sessions(peer("dfw-0", "gone-0", locations=["sea"]), NODES)] == []
