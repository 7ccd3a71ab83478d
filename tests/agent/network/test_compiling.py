"""Desired networks of a node, compiled from API objects."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tarmac.agent.network.compiler import NetworkCompiler, NetworkSnapshot
from tarmac.api.declare import decode
from tarmac.api.networking.interfaces import AttachedInterface, encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, ANNOTATION_NETWORK, RESOLVERS
from tarmac.api.networking.network import Network
from tarmac.api.networking.podendpoint import project
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.api.schema import JsonObject
from tarmac.datapath.interface import HostPort, NetworkState, NodeNetworks, Remote
from tarmac.decide.reach.members import NetworkPod, member_of, remote_member
from tarmac.decide.reach.partialobjects import PolicyFacts, SliceEndpoint, decode_service, decode_slice, policy_of
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules, ServiceFrontend

HERE, NET = "here", "shop/default"


def pod(name: str, address: str, node: str = HERE, **more: Any) -> JsonObject:
    """Return a pod with one interface, by default of the namespace shop and on its default network."""
    interface = AttachedInterface(
        name="eth0",
        network=more.get("network", NET),
        vni=4097,
        mtu=1460,
        addresses=[f"{address}/20", f"fd20::{address.rpartition('.')[2]}/64"],
        policy=more.get("policy"),
    )
    return {
        "metadata": {
            "namespace": more.get("namespace", "shop"),
            "name": name,
            "uid": f"uid-{name}",
            "labels": more.get("labels", {}),
            "annotations": {ANNOTATION_INTERFACES: encode_interfaces([interface])},
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "ports": more.get("ports", [])}]},
        "status": {"phase": more.get("phase", "Running"), "hostIP": more.get("host", "198.18.0.1")},
    }


def node_pod(name: str, node: str = HERE, **more: Any) -> NetworkPod:
    """Return a pod with its node's own interfaces."""
    raw = pod(name, "10.128.0.99", node, **more)
    raw["metadata"]["annotations"] = {}
    raw["spec"]["hostNetwork"] = True
    return _as_seen(raw)


def network() -> Network:
    return decode(Network, {"metadata": {"name": "default", "namespace": "shop"}, "spec": {"ipam": {"mode": "Auto"}}})


def member(*arguments: Any, **more: Any) -> NetworkPod:
    return _as_seen(pod(*arguments, **more))


def _as_seen(found: JsonObject) -> NetworkPod:
    """Return a local pod from its object, a remote pod from the server's projection."""
    raw = msgspec.json.encode(found)
    seen = member_of(raw) if found["spec"]["nodeName"] == HERE else remote_member(project("", raw), HERE)
    assert seen is not None
    return seen


def policy(spec: JsonObject, namespace: str = "shop", name: str = "p") -> PolicyFacts:
    return policy_of(msgspec.json.encode({"metadata": {"namespace": namespace, "name": name}, "spec": spec}))


def compile_networks(
    snapshot: NetworkSnapshot, node_addresses: tuple[str, ...], kept: Set[str] = frozenset()
) -> NodeNetworks:
    return NetworkCompiler(HERE, lambda: 0.0).compile(snapshot, node_addresses, kept).networks


def compiled(**snapshot: Any) -> dict[str, NetworkState]:
    found = compile_networks(NetworkSnapshot(**snapshot), ("198.18.0.1", "fd99::1"))
    return {network.name: network for network in found.networks}


def rules(policies: list[PolicyFacts], *others: NetworkPod, **more: Any) -> Rules:
    """Return the rules of the pod `web` at 10.128.0.5, labelled app=web, whose port http is 8080."""
    more = {"labels": {"app": "web"}, "ports": [{"containerPort": 8080, "name": "http"}], **more}
    namespaces = {"shop": {"team": "shop"}, "bank": {"team": "bank"}}
    members = [member("web", "10.128.0.5", **more), *others]
    found = compiled(members=members, policies=policies, namespaces=namespaces)[NET]
    assert found.rules["10.128.0.5"] == found.rules["fd20::5"]
    return found.rules["10.128.0.5"]


class TestWhichNetworks:
    def test_those_with_a_pod_here(self) -> None:
        members = [member("a", "10.128.0.5"), member("b", "10.128.0.6", "there", network="shop/other")]
        assert list(compiled(members=members)) == [NET]

    def test_pods_elsewhere_are_behind_their_nodes(self) -> None:
        members = [
            member("a", "10.128.0.5"),
            member("b", "10.128.0.6", "there", host="198.18.0.2"),
            member("c", "10.128.0.7", "there", host="198.18.0.2"),
            member("d", "10.128.0.8", "not-yet-heard-of", host=""),
            member("e", "10.128.0.9", "of-the-other-family", host="fd99::3"),
        ]
        there = ("10.128.0.6/32", "10.128.0.7/32", "fd20::6/128", "fd20::7/128")
        assert compiled(members=members)[NET].remotes == (Remote("198.18.0.2", there),)

    @pytest.mark.parametrize("host", ["nonsense", "198.18.0.2 } accept", "198.18.0.02", ""])
    def test_a_node_that_says_anything_but_an_address_is_left_out(self, host: str) -> None:
        members = [member("a", "10.128.0.5"), member("b", "10.128.0.6", "there", host=host)]
        assert compiled(members=members)[NET].remotes == ()

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_pods_that_have_run_their_course_count_no_more(self, phase: str) -> None:
        assert member_of(msgspec.json.encode(pod("a", "10.128.0.5", phase=phase))) is None

    def test_pods_without_interfaces_or_node_do_not_count(self) -> None:
        unbound, plain = pod("a", "10.128.0.5", ""), pod("a", "10.128.0.5")
        plain["metadata"]["annotations"] = None
        assert [member_of(msgspec.json.encode(each)) for each in (unbound, plain)] == [None, None]

    def test_the_network_says_its_number_and_ranges(self) -> None:
        spec = {"ipam": {"mode": "Auto"}}
        status = {"vni": 5000, "ipv4Range": "10.128.0.0/9", "ipv6Range": "fd20::/48"}
        network = decode(
            Network, {"metadata": {"name": "default", "namespace": "shop"}, "spec": spec, "status": status}
        )
        found = compiled(members=[member("a", "10.128.0.5")], networks={NET: network})[NET]
        assert (found.vni, found.mtu, found.ranges) == (5000, 1460, ("10.128.0.0/9", "fd20::/48"))

    def test_a_network_may_be_kept_without_pods(self) -> None:
        found = compile_networks(NetworkSnapshot(), ("198.18.0.1",), {"shop/gone"})
        assert [network.name for network in found.networks] == ["shop/gone"]


class TestPolicies:
    def test_nobody_says_anything(self) -> None:
        assert rules([]) == Rules()

    def test_a_policy_for_others_says_nothing(self) -> None:
        assert rules([policy({"selector": {"matchLabels": {"app": "db"}}})]) == Rules()
        assert rules([policy({"selector": {}}, namespace="bank")]) == Rules()
        assert rules([policy({"selector": {}, "network": "other"})]) == Rules()

    def test_an_empty_policy_lets_nothing_in_and_everything_out(self) -> None:
        assert rules([policy({"selector": {}})]) == Rules(ingress=())
        assert rules([policy({"selector": {}, "network": "default"})]) == Rules(ingress=())

    def test_a_policy_that_speaks_of_egress_limits_it(self) -> None:
        assert rules([policy({"selector": {}, "egress": []})]) == Rules((), ())
        assert rules([policy({"selector": {}, "egress": [{}]})]) == Rules((), (Allowance(),))

    def test_an_interfaces_own_policy_denies_what_it_does_not_list(self) -> None:
        assert rules([], policy=InterfacePolicy()) == Rules(ingress=())
        own = decode(InterfacePolicy, {"ingress": [{"ports": [{"port": "http"}]}]})
        assert rules([], policy=own) == Rules((Allowance(ports=(PortRange("TCP", 8080, 8080),)),))

    def test_policies_add_up(self) -> None:
        first = policy({"selector": {}, "ingress": [{"ports": [{"port": 80}]}]}, name="first")
        second = policy({"selector": {"matchLabels": {"app": "web"}}, "ingress": [{"ports": [{"port": 81}]}]})
        both = (Allowance(ports=(PortRange("TCP", 80, 80),)), Allowance(ports=(PortRange("TCP", 81, 81),)))
        assert rules([first, second, first]) == Rules(both)

    def test_blocks_with_holes_stand_alone(self) -> None:
        peers = [
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}},
            {"ipBlock": {"cidr": "10.9.9.0/24"}},
            {"ipBlock": {"cidr": "fd20::/48"}},
        ]
        found = rules([policy({"selector": {}, "ingress": [{"from": peers}]})])
        assert found.ingress == (Allowance(("10.9.9.0/24", "fd20::/48")), Allowance(("10.0.0.0/8",), ("10.9.0.0/16",)))

    @pytest.mark.parametrize(
        ("peer", "expected"),
        [
            ({"podSelector": {"matchLabels": {"app": "db"}}}, ["10.128.0.6"]),
            ({"podSelector": {}}, ["10.128.0.5", "10.128.0.6"]),
            ({"namespaceSelector": {"matchLabels": {"team": "bank"}}}, ["10.128.0.7", "10.128.0.8"]),
            (
                {
                    "namespaceSelector": {},
                    "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]},
                },
                ["10.128.0.6", "10.128.0.7"],
            ),
        ],
    )
    def test_peers_by_label_are_their_addresses_on_the_network(self, peer: JsonObject, expected: list[str]) -> None:
        others = (
            member("db", "10.128.0.6", labels={"app": "db"}),
            member("db", "10.128.0.7", "there", namespace="bank", labels={"app": "db"}),
            member("till", "10.128.0.8", namespace="bank"),
            member("elsewhere", "10.128.0.9", labels={"app": "db"}, network="shop/other"),
        )
        found = rules([policy({"selector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [peer]}]})], *others)
        assert found.ingress is not None
        assert [each for each in found.ingress[0].peers or () if "." in each] == [f"{each}/32" for each in expected]

    def test_peers_that_nobody_is_let_nothing_in(self) -> None:
        nobody = {"podSelector": {"matchLabels": {"app": "nobody"}}}
        assert rules([policy({"selector": {}, "ingress": [{"from": [nobody]}]})]) == Rules(ingress=())

    def test_ports_by_number_range_and_name(self) -> None:
        ports = [
            {"port": 80},
            {"port": 8000, "endPort": 8100},
            {"protocol": "UDP"},
            {"port": "http"},
            {"port": "http", "protocol": "UDP"},
        ]
        found = rules([policy({"selector": {}, "ingress": [{"ports": ports}]})])
        expected = (
            PortRange("TCP", 80, 80),
            PortRange("TCP", 8000, 8100),
            PortRange("UDP"),
            PortRange("TCP", 8080, 8080),
        )
        assert found.ingress == (Allowance(ports=expected),)

    def test_a_name_that_the_pod_does_not_know_is_no_port_at_all(self) -> None:
        assert rules([policy({"selector": {}, "ingress": [{"ports": [{"port": "grpc"}]}]})]) == Rules(ingress=())

    def test_on_the_way_out_a_name_means_what_each_peer_calls_so(self) -> None:
        others = (
            member("db", "10.128.0.6", labels={"app": "db"}, ports=[{"containerPort": 1, "name": "sql"}]),
            member("db2", "10.128.0.7", labels={"app": "db"}, ports=[{"containerPort": 2, "name": "sql"}]),
            member("db3", "10.128.0.8", labels={"app": "db"}),
        )
        rule = {"to": [{"podSelector": {"matchLabels": {"app": "db"}}}], "ports": [{"port": "sql"}]}
        found = rules([policy({"selector": {"matchLabels": {"app": "web"}}, "egress": [rule]})], *others)
        assert found.egress == (
            Allowance(("10.128.0.6/32", "fd20::6/128"), ports=(PortRange("TCP", 1, 1),)),
            Allowance(("10.128.0.7/32", "fd20::7/128"), ports=(PortRange("TCP", 2, 2),)),
        )


def service(name: str = "db", namespace: str = "shop", **spec: Any) -> Any:
    ports = [{"port": 5432, "name": "sql"}]
    return decode_service(
        msgspec.json.encode(
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"clusterIPs": ["10.96.0.9"], "ports": ports, **spec},
            }
        )
    )


def endpoints(*addresses: str, network: str = NET, name: str = "db", namespace: str = "shop", **conditions: Any) -> Any:
    metadata = {
        "name": f"{name}-1",
        "namespace": namespace,
        "labels": {"kubernetes.io/service-name": name},
        "annotations": {ANNOTATION_NETWORK: network} if network else {},
    }
    family = "IPv6" if addresses and ":" in addresses[0] else "IPv4"
    listed = [{"addresses": [each], "conditions": conditions, "nodeName": "there"} for each in addresses]
    ports = [{"name": "sql", "port": 6000, "protocol": "TCP"}, {"name": "other", "port": 1}]
    return decode_slice(
        msgspec.json.encode({"metadata": metadata, "addressType": family, "endpoints": listed, "ports": ports})
    )


def hinted(address: str, zone: str, node: str) -> Any:
    """Return an endpoint with a hint for a zone, and for a node if one is named."""
    found = endpoints(address)
    hints = {"forZones": [{"name": zone}]} | ({"forNodes": [{"name": node}]} if node else {})
    listed = [{"addresses": [address], "hints": hints}]
    return replace(found, endpoints=msgspec.convert(listed, list[SliceEndpoint]))


class TestServices:
    def ports(self, services: list[Any], slices: list[Any]) -> tuple[ServiceFrontend, ...]:
        return compiled(members=[member("a", "10.128.0.5")], services=services, slices=slices)[NET].services

    def test_ready_endpoints_are_backends(self) -> None:
        slices = [endpoints("10.128.0.7", "10.128.0.6"), endpoints("10.128.0.8", ready=False)]
        backends = (("10.128.0.6", 6000), ("10.128.0.7", 6000))
        assert self.ports([service()], slices) == (ServiceFrontend("10.96.0.9", "TCP", 5432, backends),)

    def test_of_those_that_leave_the_ones_that_still_serve_take_over_when_no_other_is_left(self) -> None:
        leaving = endpoints("10.128.0.8", ready=False, serving=True, terminating=True)
        dead = endpoints("10.128.0.9", ready=False, serving=False, terminating=True)
        assert self.ports([service()], [leaving, dead])[0].backends == (("10.128.0.8", 6000),)
        assert self.ports([service()], [leaving, endpoints("10.128.0.7")])[0].backends == (("10.128.0.7", 6000),)

    def test_each_family_has_its_own_backends(self) -> None:
        both = service(clusterIPs=["10.96.0.9", "fd00:96::9"])
        found = self.ports([both], [endpoints("10.128.0.7"), endpoints("fd20::7")])
        assert [(each.address, each.backends) for each in found] == [
            ("10.96.0.9", (("10.128.0.7", 6000),)),
            ("fd00:96::9", (("fd20::7", 6000),)),
        ]

    def test_backends_on_other_networks_are_none(self) -> None:
        assert self.ports([service()], [endpoints("10.128.0.7", network="shop/other")])[0].backends == ()
        bank = service(namespace="bank")
        assert self.ports([bank], [endpoints("10.128.0.7", network="bank/default", namespace="bank")]) == ()

    def test_services_of_other_namespaces_count_where_they_have_a_backend_or_one_outside_all_networks(self) -> None:
        bank = service(namespace="bank")
        for network in (NET, ""):
            found = self.ports([bank], [endpoints("192.0.2.1", network=network, namespace="bank")])
            assert found[0].backends == (("192.0.2.1", 6000),)

    @pytest.mark.parametrize(
        "address", ["169.254.64.2", "240.18.0.1", "fd74:6172:6d63:ffff::2", "fd74:6172:6d63:fffe::1"]
    )
    def test_addresses_of_the_node_inside_networks_are_no_backends(self, address: str) -> None:
        both = service(clusterIPs=["10.96.0.9", "fd00:96::9"])
        found = self.ports([both], [endpoints(address, network="")])
        assert [each.backends for each in found] == [(), ()]

    def test_a_slice_of_names_leads_nowhere_and_stops_nobody(self) -> None:
        names = replace(endpoints("192.0.2.1", network="", name="names", namespace="bank"), address_type="FQDN")
        names = replace(names, endpoints=[replace(each, addresses=["db.example"]) for each in names.endpoints])
        named = service("names", "bank", clusterIPs=["10.96.0.8"])
        found = {
            port.address: port.backends for port in self.ports([named, service()], [names, endpoints("10.128.0.7")])
        }
        assert found == {"10.96.0.8": (), "10.96.0.9": (("10.128.0.7", 6000),)}

    def test_the_node_itself_reaches_what_is_outside_all_networks(self) -> None:
        snapshot = NetworkSnapshot(
            services=[service(), service("api", clusterIPs=["10.96.0.1"])],
            slices=[endpoints("10.128.0.7"), endpoints("192.0.2.1", network="", name="api")],
        )
        found = compile_networks(snapshot, ("198.18.0.1",)).services
        assert found == (ServiceFrontend("10.96.0.1", "TCP", 5432, (("192.0.2.1", 6000),)),)

    @pytest.mark.parametrize("spec", [{"clusterIPs": ["None"]}, {"clusterIPs": []}, {"type": "ExternalName"}])
    def test_services_without_an_address_need_nothing(self, spec: JsonObject) -> None:
        assert self.ports([service(**spec)], [endpoints("10.128.0.7")]) == ()

    def test_affinity_has_a_time(self) -> None:
        assert self.ports([service(sessionAffinity="ClientIP")], [])[0].affinity == 10800
        config = {"clientIP": {"timeoutSeconds": 7}}
        assert self.ports([service(sessionAffinity="ClientIP", sessionAffinityConfig=config)], [])[0].affinity == 7

    def test_traffic_that_is_to_stay_on_the_node_finds_no_backend_elsewhere(self) -> None:
        assert self.ports([service(internalTrafficPolicy="Local")], [endpoints("10.128.0.7")])[0].backends == ()

    def test_the_nearest_that_is_there_answers(self) -> None:
        here, same_city = hinted("10.128.0.6", "dfw", HERE), hinted("10.128.0.7", "dfw", "there")
        far = hinted("10.128.0.8", "lhr", "far")

        def answering(*slices: Any, zone: str = "dfw") -> list[str]:
            members = [member("a", "10.128.0.5")]
            found = compiled(members=members, services=[service()], slices=list(slices), zone=zone)
            return [address for address, _ in found[NET].services[0].backends]

        assert answering(here, same_city, far) == ["10.128.0.6"], "an endpoint on the same node comes first"
        assert answering(same_city, far) == ["10.128.0.7"], "then those of the same city"
        assert answering(far) == ["10.128.0.8"], "then all endpoints"
        assert answering(same_city, far, zone="") == ["10.128.0.7", "10.128.0.8"], "a node without a zone uses all"
        assert answering(same_city, endpoints("10.128.0.9")) == ["10.128.0.7", "10.128.0.9"], "some have no hint"
        gone = endpoints("10.128.0.4", ready=False)
        assert answering(same_city, far, gone) == ["10.128.0.7"], "endpoints that are not ready do not count"

    def test_a_node_that_moves_has_other_neighbours(self) -> None:
        slices = [hinted("10.128.0.7", "dfw", ""), hinted("10.128.0.8", "lhr", "")]
        compiler, members = NetworkCompiler(HERE, lambda: 0.0), [member("a", "10.128.0.5")]
        found = [
            compiler.compile(
                NetworkSnapshot(members=members, services=[service()], slices=slices, zone=zone), ("198.18.0.1",)
            ).networks.networks[0]
            for zone in ("dfw", "lhr")
        ]
        assert [each.services[0].backends for each in found] == [(("10.128.0.7", 6000),), (("10.128.0.8", 6000),)]


class TestTheNodeItself:
    def reached(self, members: list[NetworkPod], services: list[Any], slices: list[Any]) -> dict[str, tuple[str, ...]]:
        found = compiled(members=members, services=services, slices=slices, networks={NET: network()})
        assert set(RESOLVERS) <= set(found[NET].from_node), "DNS is reached in the first network"
        return {name: tuple(each for each in own.from_node if each not in RESOLVERS) for name, own in found.items()}

    def test_reaches_services_of_the_networks_that_are_there(self) -> None:
        both = service(clusterIPs=["10.96.0.9", "fd00:96::9"])
        found = self.reached([member("a", "10.128.0.5")], [both], [endpoints("10.128.0.7"), endpoints("fd20::7")])
        assert found == {NET: ("10.96.0.9", "fd00:96::9")}

    def test_does_not_look_inside_for_what_is_outside(self) -> None:
        found = self.reached([member("a", "10.128.0.5")], [service()], [endpoints("192.0.2.1", network="")])
        assert found == {NET: ()}

    def test_goes_where_somebody_answers(self) -> None:
        members = [member("a", "10.128.0.5"), member("b", "10.128.0.5", network="shop/other")]
        there = endpoints("10.128.0.7", network="shop/other")
        assert self.reached(members, [service()], [there]) == {NET: (), "shop/other": ("10.96.0.9",)}
        assert self.reached(members, [service()], []) == {NET: ("10.96.0.9",), "shop/other": ()}, "rejected there"

    def test_has_the_network_of_a_pod_that_is_part_of_it_if_there_is_such_a_network(self) -> None:
        members = [node_pod("agent"), member("b", "10.128.0.7", "there", host="198.18.0.2")]
        assert self.reached(members, [service()], [endpoints("10.128.0.7")]) == {NET: ("10.96.0.9",)}
        assert compiled(members=members) == {}

    def test_is_known_to_the_nodes_that_have_the_backends(self) -> None:
        members = [member("a", "10.128.0.5"), node_pod("agent", "there", host="198.18.0.2")]
        found = compiled(members=members, slices=[endpoints("10.128.0.5")], networks={NET: network()})[NET]
        assert found.remotes == (Remote("198.18.0.2", ()),)
        assert list(found.pods) == ["10.128.0.5", "fd20::5"]


class TestPortsOfTheNode:
    def published(self, *ports: JsonObject, **more: Any) -> tuple[HostPort, ...]:
        return compiled(members=[member("a", "10.128.0.5", ports=list(ports), **more)])[NET].host_ports

    def test_lead_to_the_pod_in_both_families(self) -> None:
        found = self.published({"containerPort": 80, "hostPort": 8080}, {"containerPort": 81})
        assert found == (HostPort("TCP", 8080, ("10.128.0.5", 80)), HostPort("TCP", 8080, ("fd20::5", 80)))

    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("0.0.0.0", [HostPort("UDP", 53, ("10.128.0.5", 53))]),
            ("::", [HostPort("UDP", 53, ("fd20::5", 53))]),
            ("127.0.0.1", [HostPort("UDP", 53, ("10.128.0.5", 53), "127.0.0.1")]),
            ("FD99::0:1", [HostPort("UDP", 53, ("fd20::5", 53), "fd99::1")]),
            ("010.0.0.1", []),
        ],
    )
    def test_may_be_of_one_address(self, address: str, expected: list[HostPort]) -> None:
        port = {"containerPort": 53, "hostPort": 53, "hostIP": address, "protocol": "UDP"}
        assert self.published(port) == tuple(expected)

    def test_of_pods_elsewhere_are_none(self) -> None:
        ports = [{"containerPort": 80, "hostPort": 8080}]
        members = [member("a", "10.128.0.5"), member("b", "10.128.0.6", "there", ports=ports)]
        assert compiled(members=members)[NET].host_ports == ()

    def test_are_on_the_network_of_the_pods_first_address(self) -> None:
        raw = pod("a", "10.128.0.5", ports=[{"containerPort": 80, "hostPort": 8080}])
        nics = [
            AttachedInterface(name="eth0", network=NET, addresses=["10.128.0.5/20"]),
            AttachedInterface(name="eth1", network="shop/other", addresses=["172.20.0.5/24", "fd21::5/64"]),
        ]
        raw["metadata"]["annotations"] = {ANNOTATION_INTERFACES: encode_interfaces(nics)}
        found = compiled(members=[member_of(msgspec.json.encode(raw))])
        assert found[NET].host_ports == (HostPort("TCP", 8080, ("10.128.0.5", 80)),)
        assert found["shop/other"].host_ports == (HostPort("TCP", 8080, ("fd21::5", 80)),)

    def test_a_pod_that_is_part_of_its_node_has_them_already(self) -> None:
        assert node_pod("agent", ports=[{"containerPort": 80, "hostPort": 80}]).published == ()
