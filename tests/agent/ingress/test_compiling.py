"""A node's desired state of public addresses, compiled from API objects."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest

from tarmac.agent.ingress import servicefacts
from tarmac.agent.ingress.compiling import IngressObjects, LocalNode, compile_ingress
from tarmac.agent.ingress.leases import lease_configs
from tarmac.agent.ingress.servicefacts import OwnNode, ServiceHealth, read_service
from tarmac.api.declare import decode
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.names import NODE_PORTS
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.datapath.egress import EncryptedPeer, OutsideLink
from tarmac.datapath.ingress import MAX_NODES, IngressState, LocalBackend, OpenPort
from tarmac.decide import reasons
from tarmac.decide.ingress.targets import GatewayState
from tarmac.decide.reach.partialobjects import SliceFacts, decode_slice
from tests.attacking import TWICE

ADDRESS, ADDRESS6 = "192.0.2.10", "2001:db8::10"
NETWORK = "shop/default"
HERE = LocalNode("n1", "198.18.0.1", "dfw", {"outside0": ["192.0.2.201/24"]}, {NETWORK: ("10.128.0.0/9",)})


def pool(**spec: Any) -> AddressPool:
    own = {"ranges": [{"cidr": "192.0.2.0/25"}, {"start": "2001:db8::10", "end": "2001:db8::11"}]}
    return decode(AddressPool, {"metadata": {"name": "public"}, "spec": own | spec})


def address(value: str = ADDRESS, uid: str = "u1", name: str = "web", **spec: Any) -> PublicAddress:
    own = {
        "address": value,
        "poolName": "public",
        "claimRef": {"kind": "Service", "namespace": "shop", "name": name, "uid": uid},
    }
    return decode(PublicAddress, {"metadata": {"name": value.replace(":", "0")}, "spec": own | spec})


def service(name: str = "web", uid: str = "u1", **spec: Any):
    own = {"type": "LoadBalancer", "ports": [{"port": 80, "name": "http", "protocol": "TCP"}]}
    raw = {"metadata": {"name": name, "namespace": "shop", "uid": uid}, "spec": own | spec}
    found = read_service(msgspec.json.encode(raw))
    assert found is not None
    return found


def endpoint(node: str, at: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [at], "nodeName": node, "conditions": {"ready": True} | conditions}


def a_slice(*endpoints: dict[str, Any], name: str = "web", network: str = NETWORK, kind: str = "IPv4") -> SliceFacts:
    raw = {
        "metadata": {
            "name": f"{name}-{kind}",
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": name},
            "annotations": {"networking.datumapis.com/network": network},
        },
        "addressType": kind,
        "endpoints": list(endpoints),
        "ports": [{"port": 8080, "name": "http", "protocol": "TCP"}],
    }
    return decode_slice(msgspec.json.encode(raw))


def tunnel_end(name: str, at: str, location: str = "dfw") -> TunnelEndpoint:
    return decode(TunnelEndpoint, {"metadata": {"name": name}, "addresses": [at], "location": location, "ready": True})


def place(at: str, namespace: str = "shop", network: str = NETWORK) -> tuple[str, str, str]:
    return namespace, network, at


ENDS = {
    "n1": tunnel_end("n1", "198.18.0.1"),
    "n2": tunnel_end("n2", "198.18.0.2"),
    "far": tunnel_end("far", "198.18.0.9", "lhr"),
}
OBJECTS = IngressObjects(
    [address(candidates=[{"name": "n1"}, {"name": "n2"}])],
    {"public": pool()},
    {"shop/web": service()},
    [a_slice(endpoint("n1", "10.128.0.5"), endpoint("n2", "10.128.16.5"), endpoint("n2", "10.128.16.6"))],
    ENDS,
    {place("10.128.0.5")},
)


def port_of(objects: IngressObjects, here: LocalNode = HERE) -> OpenPort:
    (found,) = compile_ingress(here, objects).state.addresses
    (port,) = found.ports
    return port


def test_without_pools_and_addresses_there_is_nothing():
    assert compile_ingress(HERE, IngressObjects()).state == IngressState("198.18.0.1")


def test_a_held_address_leads_to_the_endpoints_of_its_service():
    compiled = compile_ingress(HERE, OBJECTS)
    (found,) = compiled.state.addresses
    backend = LocalBackend(NETWORK, "10.128.0.5", 8080)
    assert found.ports == (OpenPort("TCP", 80, (("198.18.0.1", 1), ("198.18.0.2", 2)), (backend,)),)
    assert found.answerers == ("198.18.0.1", "198.18.0.2")
    assert found.outside == OutsideLink("outside0", "192.0.2.0/24")
    assert compiled.ownable == {ADDRESS}
    assert compiled.state.networks == {NETWORK: ("10.128.0.0/9",)}
    assert compiled.state.ranges == ("192.0.2.0/25", "2001:db8::10/127")
    assert compiled.state.peers == ("198.18.0.1", "198.18.0.2"), "nodes of another Location are no peers"


def test_only_the_holder_of_that_uid_counts():
    for other in (address(uid="u2"), address(name="shop"), address(claimRef={"namespace": "shop"})):
        assert compile_ingress(HERE, replace(OBJECTS, addresses=[other])).state.addresses == ()


def test_services_share_an_address_and_the_first_holder_has_a_common_port():
    second = service("second", "u2", ports=[{"port": 80, "name": "http"}, {"port": 81, "name": "http"}])
    shared = address(sharedBy=[{"kind": "Service", "namespace": "shop", "name": "second", "uid": "u2"}])
    slices = [*OBJECTS.slices, a_slice(endpoint("n2", "10.128.16.9"), name="second")]
    services = {**OBJECTS.services, "shop/second": second}
    (found,) = compile_ingress(
        HERE, replace(OBJECTS, addresses=[shared], services=services, slices=slices)
    ).state.addresses
    assert [(each.port, each.nodes) for each in found.ports] == [
        (80, (("198.18.0.1", 1), ("198.18.0.2", 2))),
        (81, (("198.18.0.2", 1),)),
    ]


def test_a_slice_that_names_a_pod_of_another_namespace_leads_nowhere_here():
    for places in (set(), {place("10.128.0.5", "other")}, {place("10.128.0.5", network="other/default")}):
        found = port_of(replace(OBJECTS, places=places))
        assert found.backends == ()
        assert found.nodes == (("198.18.0.2", 2),)


def test_hostile_addresses_in_slices_are_left_out():
    bad = a_slice(endpoint("n2", "10.128.16.5; drop"), endpoint("n2", "010.128.16.5"), endpoint("", "10.128.16.7"))
    assert port_of(replace(OBJECTS, slices=[bad])).nodes == ()


def test_local_uses_only_own_endpoints_and_a_node_without_one_does_not_own_the_address():
    local = {"shop/web": service(externalTrafficPolicy="Local")}
    assert port_of(replace(OBJECTS, services=local)).nodes == (("198.18.0.1", 1),)
    elsewhere = replace(OBJECTS, services=local, places=set())
    compiled = compile_ingress(HERE, elsewhere)
    assert compiled.ownable == frozenset()
    assert compiled.reasons == {ADDRESS: reasons.NO_ENDPOINTS}


def test_draining_endpoints_get_no_new_connections_and_may_answer():
    slices = [a_slice(endpoint("n1", "10.128.0.5"), endpoint("n2", "10.128.16.5", ready=False))]
    compiled = compile_ingress(HERE, replace(OBJECTS, slices=slices))
    (found,) = compiled.state.addresses
    assert found.ports[0].nodes == (("198.18.0.1", 1),)
    assert found.answerers == ("198.18.0.1", "198.18.0.2")
    slices = [a_slice(endpoint("n1", "10.128.0.5", ready=False), endpoint("n2", "10.128.16.5"))]
    compiled = compile_ingress(HERE, replace(OBJECTS, slices=slices))
    assert compiled.state.addresses[0].ports[0].backends == ()
    assert compiled.state.networks.keys() == {NETWORK}, "its connections continue"


def test_without_a_ready_endpoint_those_that_serve_while_terminating_are_used():
    leaving = endpoint("n2", "10.128.16.5", ready=False, serving=True, terminating=True)
    slices = [a_slice(leaving, endpoint("n2", "10.128.16.6", ready=False))]
    assert port_of(replace(OBJECTS, slices=slices)).nodes == (("198.18.0.2", 1),)


def test_source_ranges_are_split_by_family_and_an_unnamed_family_is_closed():
    ranges = {"shop/web": service(loadBalancerSourceRanges=["10.1.2.3/16", "192.0.2.7/32"])}
    assert port_of(replace(OBJECTS, services=ranges)).clients == ("10.1.0.0/16", "192.0.2.7/32")
    six = replace(OBJECTS, services=ranges, addresses=[address(ADDRESS6)])
    assert port_of(six).clients == ()


def test_the_annotation_of_source_ranges_counts_without_the_field():
    raw = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u1",
            "annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8, 11.0.0.0/8"},
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "name": "http"}]},
    }
    found = read_service(msgspec.json.encode(raw))
    assert found is not None
    assert found.clients(4) == ("10.0.0.0/8", "11.0.0.0/8")
    assert found.clients(6) == ()


@TWICE
@pytest.mark.parametrize(
    "bad", ["everyone", "10.0.0.0/33", "10.0.0.0/8; drop", "fe80::1%eth0/64", "٣.0.0.0/8", ",", "::ffff:10.9.0.0/112"]
)
def test_an_unreadable_source_range_permits_no_client_and_harms_no_other_service(
    monkeypatch: pytest.MonkeyPatch, bad: str, defended: bool
):
    """Each of these got past the server once, or comes from a server with other rules."""
    evil = service("evil", "u9", loadBalancerSourceRanges=[bad, " 010.1.0.0/16 "])
    sliced = a_slice(endpoint("n2", "10.128.16.9"), name="evil")
    mine = address("192.0.2.11", "u9", "evil")
    services, addresses = {**OBJECTS.services, "shop/evil": evil}, [*OBJECTS.addresses, mine]
    beside = replace(OBJECTS, services=services, slices=[*OBJECTS.slices, sliced], addresses=addresses)
    if not defended:
        monkeypatch.setattr(servicefacts, "_client_range", lambda written: ip_network(written, strict=False))
        with pytest.raises(ValueError, match="does not appear to be"):
            compile_ingress(HERE, beside)
        return
    assert evil.clients(4) == ("10.1.0.0/16",)
    assert compile_ingress(HERE, beside).state.addresses[0] == compile_ingress(HERE, OBJECTS).state.addresses[0]


def test_an_unreadable_annotation_of_source_ranges_permits_no_client():
    old = {"service.beta.kubernetes.io/load-balancer-source-ranges": "everyone"}
    raw = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "annotations": old}}
    found = read_service(msgspec.json.encode({**raw, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}))
    assert found is not None
    assert found.clients(4) == ()


def test_an_address_of_the_other_family_uses_slices_of_that_family():
    both = replace(OBJECTS, addresses=[address(ADDRESS6)])
    assert port_of(both).nodes == ()
    six = a_slice(endpoint("n2", "fd20::5"), kind="IPv6")
    assert port_of(replace(both, slices=[*OBJECTS.slices, six])).nodes == (("198.18.0.2", 1),)


def test_only_a_candidate_with_a_link_to_the_segment_owns_an_address():
    assert compile_ingress(HERE, replace(OBJECTS, addresses=[address()])).ownable == frozenset()
    blind = compile_ingress(HERE._replace(interfaces={"eth0": ["198.18.0.1/24"]}), OBJECTS)
    assert blind.ownable == frozenset()
    assert blind.reasons == {ADDRESS: reasons.NO_OUTSIDE_INTERFACE}


GATEWAY = OwnNode({"submariner.io/gateway": "true"})
BY_ROUTES = replace(OBJECTS, pools={"public": pool(announce="bgp")}, node=GATEWAY)


def test_gateways_announce_addresses_of_a_pool_with_bgp_without_a_lease():
    routed = compile_ingress(HERE, BY_ROUTES)
    assert (routed.ownable, routed.announced) == (frozenset(), {ADDRESS})
    assert routed.routed == {ADDRESS: "public"}
    (found,) = routed.state.addresses
    assert (found.routed, found.outside) == (True, None)
    other = compile_ingress(HERE, replace(BY_ROUTES, node=OwnNode()))
    assert (other.announced, other.routed, other.state.addresses[0].routed) == (frozenset(), {}, False)


def test_a_cordoned_gateway_withdraws_and_still_takes_packets_of_routes_that_end_late():
    routed = compile_ingress(HERE, replace(BY_ROUTES, node=OwnNode(GATEWAY.labels, cordoned=True)))
    assert routed.announced == frozenset()
    assert routed.reasons == {ADDRESS: reasons.DRAINING}
    assert routed.state.addresses[0].routed


def test_a_gateway_announces_by_routes_only_where_an_endpoint_may_answer():
    none = compile_ingress(HERE, replace(BY_ROUTES, slices=[]))
    assert (none.announced, none.reasons) == (frozenset(), {ADDRESS: reasons.NO_ENDPOINTS})
    local = replace(BY_ROUTES, services={"shop/web": service(externalTrafficPolicy="Local")})
    assert compile_ingress(HERE, local).announced == {ADDRESS}
    assert compile_ingress(HERE, replace(local, places=set())).announced == frozenset(), "its only endpoint is no pod"
    draining = [a_slice(endpoint("n1", "10.128.0.5", ready=False, serving=False))]
    assert compile_ingress(HERE, replace(BY_ROUTES, slices=draining)).announced == frozenset()


def test_affinity_and_virtual_hardware_addresses_are_passed_on():
    sticky = {"shop/web": service(sessionAffinity="ClientIP")}
    assert port_of(replace(OBJECTS, services=sticky)).affinity
    (found,) = compile_ingress(HERE, replace(OBJECTS, pools={"public": pool(announce="virtualMAC")})).state.addresses
    assert found.outside is not None
    assert found.outside.virtual


def test_two_nodes_that_claim_one_tunnel_end_are_one_peer():
    ends = {**ENDS, "n3": tunnel_end("n3", "198.18.0.2")}
    slices = [a_slice(endpoint("n3", "10.128.16.5"))]
    assert port_of(replace(OBJECTS, endpoints=ends, slices=slices)).nodes == ()


def test_leases_concern_candidates_and_voters():
    object_ = address(candidates=[{"name": "n1", "address": "198.18.0.1"}], voters=[{"name": "n2"}])
    for node, can_own in (("n1", True), ("n2", True)):
        configs = lease_configs(node, [object_], {ADDRESS} if can_own else set())
        assert set(configs) == {ADDRESS}
        assert list(configs[ADDRESS].candidates) == ["n1"]
        assert list(configs[ADDRESS].voters) == ["n2"]
    assert lease_configs("n3", [object_], {ADDRESS}) == {}


def encrypting(name: str, at: str, location: str, encryption: str = "kernel") -> TunnelEndpoint:
    return msgspec.structs.replace(tunnel_end(name, at, location), encryption=encryption, public_key=f"key-{name}")


WIDE = {
    "n1": encrypting("n1", "198.18.0.1", "dfw"),
    "n2": encrypting("n2", "198.18.0.2", "dfw"),
    "far": encrypting("far", "198.18.0.9", "lhr", "userspace"),
    "sea": encrypting("sea", "198.18.0.8", "sea"),
}


def test_endpoints_of_other_locations_are_used_without_any_here_and_reached_encrypted():
    near, far, sea = (
        endpoint(*each) for each in (("n2", "10.128.16.5"), ("far", "10.128.32.5"), ("sea", "10.128.48.5"))
    )
    both = replace(OBJECTS, endpoints=WIDE, slices=[a_slice(near, far, sea)])
    assert port_of(both).nodes == (("198.18.0.2", 1),), "the node's own Location comes first"
    compiled = compile_ingress(HERE, both)
    assert compiled.state.encrypted == (EncryptedPeer("198.18.0.8", "key-sea"), EncryptedPeer("198.18.0.9", "key-far"))
    assert compiled.state.peers == ("198.18.0.1", "198.18.0.2", "198.18.0.8", "198.18.0.9")
    assert compiled.state.addresses[0].answerers == ("198.18.0.2", "198.18.0.8", "198.18.0.9")
    elsewhere = replace(both, slices=[a_slice(far, sea)])
    assert port_of(elsewhere).nodes == (("198.18.0.9", 1),), "then the first other Location by name"
    ending = endpoint("n2", "10.128.16.5", ready=False, serving=True)
    assert port_of(replace(both, slices=[a_slice(ending, sea)])).nodes == (("198.18.0.8", 1),)


def test_a_node_that_cannot_encrypt_is_not_reached_from_another_location():
    far = endpoint("far", "10.128.32.5")
    for lacking in ("n1", "far"):
        ends = WIDE | {lacking: msgspec.structs.replace(WIDE[lacking], encryption="none")}
        objects = replace(OBJECTS, endpoints=ends, slices=[a_slice(far)])
        assert port_of(objects).nodes == ()
        assert "198.18.0.9" not in compile_ingress(HERE, objects).state.peers
    unkeyed = WIDE | {"far": msgspec.structs.replace(WIDE["far"], public_key="")}
    assert port_of(replace(OBJECTS, endpoints=unkeyed, slices=[a_slice(far)])).nodes == ()


def test_with_more_nodes_than_there_are_numbers_those_here_and_those_with_endpoints_are_kept():
    many = {f"x{n:03}": encrypting(f"x{n:03}", f"198.18.{1 + n // 200}.{1 + n % 200}", "ams") for n in range(300)}
    objects = replace(OBJECTS, endpoints=WIDE | many, slices=[a_slice(endpoint("x299", "10.128.32.5"))])
    peers = compile_ingress(HERE, objects).state.peers
    assert len(peers) == MAX_NODES + 1
    assert {"198.18.0.1", "198.18.0.2", WIDE["n2"].addresses[0], many["x299"].addresses[0]} <= set(peers)


def workload_slice(*endpoints: dict[str, Any], uid: str = "w1", port: int = 8080, **labels: str) -> SliceFacts:
    raw = {
        "metadata": {
            "name": f"hello-{uid}-{port}",
            "namespace": "shop",
            "labels": {"networking.datumapis.com/address": ADDRESS, "compute.datumapis.com/workload-uid": uid} | labels,
            "annotations": {"networking.datumapis.com/network": NETWORK},
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"port": port, "name": f"http-tcp-{port}", "protocol": "TCP"}],
    }
    return decode_slice(msgspec.json.encode(raw))


def test_an_address_of_a_workload_leads_to_the_same_ports_of_its_instances():
    holder = {"kind": "Workload", "namespace": "shop", "name": "hello", "uid": "w1"}
    here, far = endpoint("n1", "10.128.0.5"), endpoint("far", "10.128.32.5")
    objects = replace(
        OBJECTS,
        addresses=[address(claimRef=holder)],
        services={},
        endpoints=WIDE,
        slices=[workload_slice(here, far), workload_slice(far, port=9090), workload_slice(here, uid="w2", port=7)],
    )
    (found,) = compile_ingress(HERE, objects).state.addresses
    backend = LocalBackend(NETWORK, "10.128.0.5", 8080)
    assert found.ports == (
        OpenPort("TCP", 8080, (("198.18.0.1", 1),), (backend,)),
        OpenPort("TCP", 9090, (("198.18.0.9", 1),)),
    ), "the slice of another Workload does not count"
    foreign = replace(objects, places=set())
    assert compile_ingress(HERE, foreign).state.addresses[0].ports[0].backends == (), "no pod here has this address"


def test_an_address_of_a_workload_is_announced_only_in_cities_with_an_instance():
    holder = {"kind": "Workload", "namespace": "shop", "name": "hello", "uid": "w1"}
    objects = replace(BY_ROUTES, addresses=[address(claimRef=holder)], services={}, endpoints=WIDE)
    here = replace(objects, slices=[workload_slice(endpoint("n2", "10.128.16.5"))])
    assert compile_ingress(HERE, here).announced == {ADDRESS}
    elsewhere = compile_ingress(HERE, replace(objects, slices=[workload_slice(endpoint("far", "10.128.32.5"))]))
    assert (elsewhere.announced, elsewhere.reasons) == (frozenset(), {ADDRESS: reasons.NO_READY_INSTANCE})
    assert elsewhere.state.addresses[0].ports[0].nodes == (("198.18.0.9", 1),), "late packets are carried there"


HTTP = {"port": 80, "name": "http", "protocol": "TCP", "nodePort": 30080}
DOORS = replace(OBJECTS, addresses=[], pools={}, services={"shop/web": service(type="NodePort", ports=[HTTP])})


def test_node_ports_lead_to_all_endpoints_without_any_pool():
    compiled = compile_ingress(HERE, DOORS)
    (found,) = compiled.state.addresses
    assert (found.address, found.routed, found.outside) == (NODE_PORTS[0], False, None)
    backend = LocalBackend(NETWORK, "10.128.0.5", 8080)
    assert found.ports == (OpenPort("TCP", 30080, (("198.18.0.1", 1), ("198.18.0.2", 2)), (backend,)),)
    assert compiled.state.ranges == (f"{NODE_PORTS[0]}/32",)
    assert compiled.state.networks.keys() == {NETWORK}
    assert (compiled.announced, compiled.ownable, compiled.health) == (frozenset(), frozenset(), {})


def test_a_service_with_an_address_has_its_node_port_beside_it():
    both = replace(OBJECTS, services={"shop/web": service(ports=[HTTP], loadBalancerSourceRanges=["192.0.2.7/32"])})
    first, door = compile_ingress(HERE, both).state.addresses
    assert (first.address, [each.port for each in first.ports]) == (ADDRESS, [80])
    assert (door.address, [each.port for each in door.ports]) == (NODE_PORTS[0], [30080])
    assert door.ports[0].clients == ("192.0.2.7/32",)


def test_with_the_policy_local_a_node_port_leads_to_own_endpoints_and_health_is_told():
    ports: dict[str, Any] = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "ports": [HTTP]}
    compiled = compile_ingress(HERE, replace(DOORS, services={"shop/web": service(**ports)}))
    assert compiled.state.addresses[0].ports[0].nodes == (("198.18.0.1", 1),)
    assert compiled.health == {31000: ServiceHealth("shop", "web", 1)}
    foreign = compile_ingress(HERE, replace(DOORS, services={"shop/web": service(**ports)}, places=set()))
    assert foreign.health == {31000: ServiceHealth("shop", "web", 0)}
    assert foreign.state.addresses[0].ports[0].nodes == ()


def test_node_ports_have_the_families_of_the_slices():
    six = a_slice(endpoint("n2", "fd20::5"), kind="IPv6")
    both = compile_ingress(HERE, replace(DOORS, slices=[*DOORS.slices, six])).state.addresses
    assert [each.address for each in both] == list(NODE_PORTS)
    assert [each.ports[0].nodes for each in both] == [(("198.18.0.1", 1), ("198.18.0.2", 2)), (("198.18.0.2", 1),)]


def test_limits_of_a_pool_are_those_of_each_of_its_addresses():
    (found,) = compile_ingress(HERE, OBJECTS).state.addresses
    assert (found.new_per_second, found.connections) == (None, None)
    limited = replace(OBJECTS, pools={"public": pool(limits={"newPerSecond": 5, "connections": 7})})
    (found,) = compile_ingress(HERE, limited).state.addresses
    assert (found.new_per_second, found.connections) == (5, 7)


def judged(state: GatewayState):
    return lambda _: state


PASSED = GatewayState("n1", "dfw")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (PASSED, ""),
        (replace(PASSED, programmed=False), reasons.PROGRAMMING),
        (replace(PASSED, passed=False), reasons.SELF_TEST_FAILED),
        (replace(PASSED, passed=False, alone=True), ""),
    ],
)
@pytest.mark.parametrize("objects", [OBJECTS, BY_ROUTES], ids=["segment", "routes"])
def test_a_gateway_offers_what_its_own_connections_reach(objects: IngressObjects, state: GatewayState, reason: str):
    compiled = compile_ingress(HERE, objects, judged(state))
    assert compiled.tests == {ADDRESS: 80}
    assert compiled.ownable | compiled.announced == (frozenset() if reason else {ADDRESS})
    assert compiled.reasons == {ADDRESS: reason}


@pytest.mark.parametrize(
    "spec",
    [
        {"ports": [{"port": 80, "name": "http", "protocol": "UDP"}]},
        {"loadBalancerSourceRanges": ["203.0.113.0/24"]},
    ],
    ids=["no TCP port", "closed to nodes"],
)
def test_an_address_that_a_node_cannot_test_is_announced_by_its_rules(spec: dict[str, Any]):
    slices = [a_slice(endpoint("n1", "10.128.0.5"))]
    objects = replace(BY_ROUTES, services={"shop/web": service(**spec)}, slices=slices)
    failed = judged(replace(PASSED, passed=False))
    compiled = compile_ingress(HERE, objects, failed)
    assert (compiled.tests, compiled.announced) == ({}, {ADDRESS})
    permitted: dict[str, Any] = {"loadBalancerSourceRanges": ["198.18.0.0/24"]}
    compiled = compile_ingress(HERE, replace(objects, services={"shop/web": service(**permitted)}), failed)
    assert compiled.tests == {ADDRESS: 80}
