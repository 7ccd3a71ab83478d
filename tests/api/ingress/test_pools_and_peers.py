"""Rules of AddressPools, PublicAddresses and BGPPeers."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.declare import decode
from tarmac.api.ingress.addresspool import AddressPoolSpec, announcement
from tarmac.api.ingress.bgppeer import BGPPeerSpec, checks_ttl, restart_seconds
from tarmac.api.schema import JsonObject
from tests.api.checking import causes, errors_of, make, served


def pool(**changes: Any) -> JsonObject:
    return make("AddressPool", {"ranges": [{"cidr": "203.0.113.0/24"}], **changes})


def address(name: str = "203.0.113.5", **changes: Any) -> JsonObject:
    return make("PublicAddress", {"address": name, "poolName": "public", **changes}, name=name)


def peer(**changes: Any) -> JsonObject:
    return make("BGPPeer", {"address": "192.0.2.1", "asn": 65001, "localASN": 65000, **changes})


SERVICE = {"kind": "Service", "namespace": "team", "name": "web", "uid": "u"}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (pool(), []),
        (pool(ranges=[]), ["Invalid spec.ranges"]),
        (pool(ranges=[{"cidr": "203.0.113.0/15"}]), ["Invalid spec.ranges[0].cidr"]),
        (pool(ranges=[{"cidr": "203.0.0.0/16"}]), []),
        (pool(ranges=[{"cidr": "203.0.0.0/15"}]), ["Invalid spec.ranges[0]"]),
        (pool(ranges=[{"cidr": "127.0.0.0/24"}]), ["Invalid spec.ranges[0]"]),
        (pool(ranges=[{"start": "203.0.113.9", "end": "203.0.113.3"}]), ["Invalid spec.ranges[0].end"]),
        (pool(scope="Anycast"), []),
        (pool(scope="Anycast", announce="gratuitous"), ["Invalid spec.announce"]),
        (pool(scope="Everywhere"), ["NotSupported spec.scope"]),
        (pool(bgp={"communities": ["65000:1"]}), ["Forbidden spec.bgp"]),
        (pool(announce="bgp", bgp={"communities": ["65000:1"], "largeCommunities": ["4200000000:1:2"]}), []),
        (pool(announce="bgp", bgp={"communities": ["65000:70000"]}), ["Invalid spec.bgp.communities[0]"]),
        (pool(announce="bgp", bgp={"largeCommunities": ["1:2"]}), ["Invalid spec.bgp.largeCommunities[0]"]),
        (pool(announce="bgp", subnet={"gateway": "203.0.113.1"}), ["Forbidden spec.subnet"]),
        (pool(subnet={"gateway": "2001:db8::1"}), ["Invalid spec.subnet.gateway"]),
        (pool(locations=["Not a name"]), ["Invalid spec.locations[0]"]),
        (pool(holdDown="-1s"), ["Invalid spec.holdDown"]),
        (pool(priority=10**9), ["Invalid spec.priority"]),
        (pool(limits={"newPerSecond": 0}), ["Invalid spec.limits.newPerSecond"]),
        (pool(allowedNamespaces={"names": ["A"]}), ["Invalid spec.allowedNamespaces.names[0]"]),
        (address(), []),
        (address(claimRef=SERVICE, sharedBy=[{**SERVICE, "name": "other"}]), []),
        (address(claimRef={"namespace": "team"}), []),
        (address(claimRef={"namespace": "team", "uid": "u"}), ["Forbidden spec.claimRef.uid"]),
        (address(claimRef={"namespace": "team", "name": "web"}), ["Required spec.claimRef.kind"]),
        (address(sharedBy=[SERVICE]), ["Forbidden spec.sharedBy", "Invalid spec.sharedBy[0].namespace"]),
        (
            address(claimRef=SERVICE, sharedBy=[{**SERVICE, "namespace": "foreign"}]),
            ["Invalid spec.sharedBy[0].namespace"],
        ),
        (address(claimRef={**SERVICE, "kind": "Workload"}, sharedBy=[SERVICE]), ["Forbidden spec.sharedBy[0]"]),
        (make("PublicAddress", {"address": "203.0.113.5", "poolName": "p"}, name="mine"), ["Invalid metadata.name"]),
        (peer(), []),
        (peer(address="203.0.113.300"), ["Invalid spec.address"]),
        (peer(address="127.0.0.1"), ["Invalid spec.address"]),
        (peer(sourceAddress="2001:db8::1"), ["Invalid spec.sourceAddress"]),
        (peer(asn=0), ["Invalid spec.asn"]),
        (peer(families=["IPv6"]), ["Invalid spec.families"]),
        (peer(holdTime="2s"), ["Invalid spec.holdTime"]),
        (peer(holdTime="3500ms"), ["Invalid spec.holdTime"]),
        (peer(bfd={}), []),
        (peer(bfd={"interval": "1ms"}), ["Invalid spec.bfd.interval"]),
        (peer(bfd={}, gracefulRestart={}), ["Forbidden spec.bfd"]),
        (peer(bfd={}, gracefulRestart={"enabled": False}), []),
        (peer(localPreference=200), ["Forbidden spec.localPreference"]),
        (peer(localPreference=200, asn=65000), []),
        (peer(multihop=True, ttlSecurity=True), ["Forbidden spec.ttlSecurity"]),
        (peer(communities=["a:b"]), ["Invalid spec.communities[0]"]),
        (peer(maxPrefixes=0), ["Invalid spec.maxPrefixes"]),
        (peer(passwordSecret="Not A Name"), ["Invalid spec.passwordSecret"]),
    ],
)
def test_every_cause_is_named_with_its_field(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


def test_all_causes_come_at_once() -> None:
    obj = pool(ranges=[{"cidr": "x"}], scope="Anycast", announce="virtualMAC", holdDown="soon", locations=["A"])
    assert {"spec.ranges[0].cidr", "spec.announce", "spec.holdDown", "spec.locations[0]"} <= {
        each.path for each in errors_of(obj)
    }


def test_the_scope_of_a_pool_and_the_address_of_an_object_never_change() -> None:
    assert causes(pool(scope="Anycast"), pool()) == ["Invalid spec.scope"]
    assert causes(address(poolName="other"), address()) == ["Invalid spec.poolName"]


def test_a_pool_is_announced_by_its_scope_unless_it_says_how() -> None:
    ranges = [{"cidr": "203.0.113.0/24"}]
    said = [{}, {"scope": "Anycast"}, {"announce": "virtualMAC"}]
    found = [announcement(decode(AddressPoolSpec, {"ranges": ranges, **each})) for each in said]
    assert found == ["gratuitous", "bgp", "virtualMAC"]


def test_graceful_restart_is_on_unless_bfd_is() -> None:
    def spec(**more: Any) -> BGPPeerSpec:
        return decode(BGPPeerSpec, peer(**more)["spec"])

    assert restart_seconds(spec()) == 60
    assert restart_seconds(spec(gracefulRestart={"restartTime": "90s"})) == 90
    assert restart_seconds(spec(gracefulRestart={"enabled": False})) == 0
    assert restart_seconds(spec(bfd={})) == 0
    assert [checks_ttl(spec()), checks_ttl(spec(multihop=True)), checks_ttl(spec(ttlSecurity=False))] == [
        True,
        False,
        False,
    ]


def test_warnings_tell_about_pools_without_users_and_sessions_without_passwords() -> None:
    def told(obj: JsonObject) -> list[str]:
        return served(obj["kind"]).strategy.warnings(obj, None)

    assert "no namespace may use the pool" in told(pool())[0]
    chosen = pool(allowedNamespaces={"names": ["team"]}, gatewaySelector={"matchLabels": {"disk": "fast"}})
    assert ["nodes can set these labels themselves" in each for each in told(chosen)] == [True]
    assert "not authenticated" in told(peer())[0]
    assert told(peer(passwordSecret="bgp")) == []


def test_columns_show_the_holder_and_the_places_that_announce() -> None:
    nodes = [{"name": "dfw-0", "location": "dfw", "announcing": True}, {"name": "sea-0", "location": "sea"}]
    obj = make(
        "PublicAddress", {"address": "203.0.113.5", "poolName": "public", "claimRef": SERVICE}, status={"nodes": nodes}
    )
    shown = {each.name: each.value(obj) for each in served("PublicAddress").columns if each.name != "Age"}
    assert (shown["Holder"], shown["Announced-From"]) == ("Service/team/web", "dfw")
    reserved = make("PublicAddress", {"address": "203.0.113.5", "poolName": "p", "claimRef": {"namespace": "team"}})
    assert next(each for each in served("PublicAddress").columns if each.name == "Holder").value(reserved) == "team/*"
