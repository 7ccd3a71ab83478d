"""Rules of external services and of their public addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest

from tarmac.api.declare import schema_of
from tarmac.api.egress.forwarding import Forwarder
from tarmac.api.egress.names import ANNOTATION_NODE_FACTS, forwarder_name, node_digits, node_label
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, interface_addresses, read_facts, write_facts
from tarmac.api.schema import JsonObject, Schema
from tests.api.checking import causes, errors_of, make, served


def service(**changes: Any) -> JsonObject:
    source = {"service": {"name": "orders"}, "sourceIP": "192.0.2.7"}
    spec = {"targetIP": "203.0.113.9", "sources": [source], "ports": [{"port": 5432, "targetPort": 8000}], **changes}
    return make("ExternalService", spec)


def source(**changes: Any) -> dict[str, Any]:
    return {"sources": [{"service": {"name": "orders"}, "sourceIP": "192.0.2.7", **changes}]}


SOURCE = source()["sources"][0]


def numbered(count: int) -> list[dict[str, Any]]:
    return [{**SOURCE, "service": {"name": f"orders-{number}"}} for number in range(count)]


TWO_NAMELESS = [{"port": 1, "name": "a"}, {"port": 2}]
SAME_DIAL = [{"name": "a", "port": 1, "targetPort": 9}, {"name": "b", "port": 9}]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (service(), []),
        (service(targetIP=""), ["Invalid spec.targetIP"]),
        (service(targetIP="127.0.0.1"), ["Invalid spec.targetIP"]),
        (service(targetIP="169.254.169.254"), ["Invalid spec.targetIP"]),
        (service(targetIP="010.0.0.1"), ["Invalid spec.targetIP"]),
        (service(sources=[]), ["Invalid spec.sources"]),
        (service(**source(service={"name": ""})), ["Invalid spec.sources[0].service.name"]),
        (service(**source(sourceIP="")), ["Required spec.sources[0].sourceIP"]),
        (service(**source(sourceIPClaim={"name": "c"})), ["Forbidden spec.sources[0].sourceIPClaim"]),
        (service(**source(sourceIP="2001:db8::1")), ["Invalid spec.sources[0].sourceIP"]),
        (service(ports=[]), ["Invalid spec.ports"]),
        (service(ports=[{"port": 0}]), ["Invalid spec.ports[0].port"]),
        (service(ports=[{"port": 5432, "targetPort": "http"}]), ["Invalid spec.ports[0].targetPort"]),
        (service(ports=[{"port": 5432, "name": "sql", "targetPort": "sql"}]), []),
        (service(ports=TWO_NAMELESS), ["Required spec.ports[1].name"]),
        (service(ports=SAME_DIAL), ["Duplicate spec.ports[1].targetPort"]),
        (service(sources=[SOURCE, SOURCE]), ["Duplicate spec.sources[1]"]),
        (service(sources=[SOURCE, {**SOURCE, "service": {"name": "orders", "namespace": "shop"}}]), []),
        (service(sources=[SOURCE, {**SOURCE, "location": "dfw"}]), []),
        (service(sources=numbered(65)), ["TooMany spec.sources"]),
        (service(ports=[{"name": f"p{n}", "port": n} for n in range(1, 66)]), ["TooMany spec.ports"]),
        (service(**source(location="Not Here")), ["Invalid spec.sources[0].location"]),
        (service(gateway={"location": "_"}), ["Invalid spec.gateway.location"]),
    ],
)
def test_external_services(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


PORTS = [{"name": f"p{n}", "port": n} for n in range(1, 65)]


def test_ports_for_more_sources_than_a_forwarder_holds_are_refused_with_the_numbers() -> None:
    assert causes(service(ports=PORTS, sources=numbered(23))) == []
    (error,) = errors_of(service(ports=PORTS, sources=numbered(24)))
    assert error.path == "spec.ports"
    assert "64 ports for 24 sources are 1536 rules on a node with one Pod of each" in error.message
    assert "a node holds 1498 of one ExternalService" in error.message
    assert "another ExternalService of the same target" in error.message


def test_sources_in_different_locations_do_not_add_up_on_a_node() -> None:
    placed = [{**each, "location": f"city-{n % 3}"} for n, each in enumerate(numbered(60))]
    assert causes(service(ports=PORTS, sources=placed)) == []
    everywhere = [{**SOURCE, "service": {"name": f"more-{n}"}} for n in range(4)]
    assert causes(service(ports=PORTS, sources=[*placed, *everywhere])) == ["Invalid spec.ports"]


def test_an_external_service_beyond_the_limit_may_be_updated_but_not_grow() -> None:
    old = service(ports=PORTS, sources=numbered(30))
    moved = service(ports=PORTS, sources=numbered(30), targetIP="203.0.113.10")
    assert causes(moved, old) == []
    assert causes(service(ports=PORTS, sources=numbered(31)), old) == ["Invalid spec.ports"]
    assert causes(service(ports=PORTS[:20], sources=numbered(31)), old) == []


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("10.96.0.1", "the addresses of Services 10.96.0.0/12"),
        ("169.254.200.1", "the addresses that stand for servers outside 169.254.192.0/18"),
        ("169.254.169.254", "the link-local addresses 169.254.0.0/16"),
        ("240.0.0.7", "the addresses that stand for nodes 240.0.0.0/4"),
        ("224.0.0.1", "multicast 224.0.0.0/4"),
        ("0.0.0.0", "the addresses that mean no host 0.0.0.0/8"),
        ("fd74:6172:6d63:fffd::1", "the addresses of connections to servers outside fd74:6172:6d63:fffd::/64"),
        ("fe80::1", "the link-local addresses fe80::/10"),
        ("::1", "the loopback of every host ::1/128"),
    ],
)
def test_a_target_inside_the_platform_is_told_where_it_is(target: str, where: str) -> None:
    (found,) = [each for each in errors_of(service(targetIP=target)) if each.path == "spec.targetIP"]
    assert found.detail == f"must be the address of a server outside the platform: it is in {where}"


def test_its_name_is_a_label_and_all_causes_are_told_at_once() -> None:
    obj = service(targetIP="127.0.0.1", ports=[{"port": 80, "targetPort": "http"}])
    obj["metadata"] = {"name": "a.b", "namespace": "external-services"}
    assert causes(obj) == [
        "Forbidden metadata.namespace",
        "Invalid metadata.name",
        "Invalid spec.targetIP",
        "Invalid spec.ports[0].targetPort",
    ]


def test_a_node_port_is_accepted_and_said_to_be_without_effect() -> None:
    obj = service(ports=[{"port": 80, "nodePort": 30080}])
    assert causes(obj) == []
    assert served("ExternalService").strategy.warnings(obj, None) == [
        "spec.ports[0].nodePort: has no effect, Pods dial targetPort"
    ]


def address_class(**changes: Any) -> JsonObject:
    return make("SourceIPClass", {"ranges": [{"cidr": "192.0.2.0/28"}], **changes})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (address_class(), []),
        (address_class(ranges=[{"start": "192.0.2.1", "end": "192.0.2.9"}]), []),
        (address_class(ranges=[{}]), ["Required spec.ranges[0]"]),
        (address_class(ranges=[{"start": "192.0.2.9", "end": "192.0.2.1"}]), ["Invalid spec.ranges[0].end"]),
        (address_class(ranges=[{"start": "192.0.2.9", "end": "2001:db8::1"}]), ["Invalid spec.ranges[0].end"]),
        (address_class(ranges=[{"cidr": "192.0.2.0/28", "start": "192.0.2.1"}]), ["Forbidden spec.ranges[0].cidr"]),
        (
            address_class(ranges=[{"cidr": "192.0.2.0/28"}, {"start": "192.0.2.3", "end": "192.0.2.3"}]),
            ["Invalid spec.ranges[1]"],
        ),
        (address_class(allowedTargets=["10.0.0.1/8"]), ["Invalid spec.allowedTargets[0]"]),
        (address_class(holdDown="a day"), ["Invalid spec.holdDown"]),
        (address_class(sharing="Everybody"), ["NotSupported spec.sharing"]),
        (address_class(ranges=[{"cidr": "10.0.0.0/16"}]), []),
        (address_class(ranges=[{"cidr": "10.0.0.0/15"}]), ["Invalid spec.ranges[0]"]),
        (address_class(ranges=[{"cidr": "2001:db8::/64"}]), []),
        (address_class(ranges=[{"cidr": "127.0.0.0/28"}]), ["Invalid spec.ranges[0]"]),
        (address_class(ranges=[{"start": "223.255.255.250", "end": "224.0.0.1"}]), ["Invalid spec.ranges[0]"]),
        (address_class(ranges=[{"cidr": "169.254.169.254/32"}]), ["Invalid spec.ranges[0]"]),
        (address_class(ranges=[{"cidr": "ff00::/120"}]), ["Invalid spec.ranges[0]"]),
        (address_class(subnet={"gateway": "192.0.2.1"}), []),
        (address_class(subnet={"gateway": "2001:db8::1"}), ["Invalid spec.subnet.gateway"]),
        (address_class(subnet={"interface": "a b"}), ["Invalid spec.subnet.interface"]),
        (address_class(locations=[{"name": "dfw"}, {"name": "dfw"}]), ["Duplicate spec.locations[1]"]),
        (
            address_class(locations=[{"name": "dfw", "gatewaySelector": {"matchLabels": {"-": "x"}}}]),
            ["Invalid spec.locations[0].gatewaySelector.matchLabels"],
        ),
        (address_class(allowedNamespaces={"names": ["A"]}), ["Invalid spec.allowedNamespaces.names[0]"]),
        (address_class(inbound={"ports": [0]}), ["Invalid spec.inbound.ports[0]"]),
    ],
)
def test_classes(obj: JsonObject, expected: list[str]) -> None:
    assert causes(obj) == expected


def test_a_class_says_no_by_default() -> None:
    obj = address_class()
    causes(obj)
    spec = obj["spec"]
    assert (spec["sharing"], spec["reclaimPolicy"], spec["holdDown"]) == ("Exclusive", "Delete", "24h")
    assert "allowedNamespaces" not in spec


@pytest.mark.parametrize(
    ("address", "name"), [("192.0.2.7", "192.0.2.7"), ("2001:db8::1", "20010db8000000000000000000000001")]
)
def test_an_address_is_named_after_itself(address: str, name: str) -> None:
    spec = {"address": address, "className": "partner"}
    assert causes(make("SourceIP", spec, name=name)) == []
    assert causes(make("SourceIP", spec, name="mine")) == ["Invalid metadata.name"]
    other = make("SourceIP", {**spec, "className": "other"}, name=name)
    assert causes(other, make("SourceIP", spec, name=name)) == ["Invalid spec.className"]


def test_a_bound_claim_keeps_what_it_has() -> None:
    bound = make("SourceIPClaim", {"className": "a"}, status={"phase": "Bound"})
    pending = make("SourceIPClaim", {"className": "a"}, status={"phase": "Pending"})
    changed = make("SourceIPClaim", {"className": "b", "limits": {"connections": 5}})
    assert causes(changed, pending) == []
    assert causes(changed, bound) == ["Invalid spec.className"]


def test_a_claim_does_not_lie_where_the_platform_keeps_its_rules() -> None:
    claim = make("SourceIPClaim", {"className": "a"})
    claim["metadata"]["namespace"] = "external-services"
    assert causes(claim) == ["Forbidden metadata.namespace"]


def test_further_holders_of_an_address_come_after_the_first() -> None:
    sharing = {"address": "192.0.2.7", "className": "a", "sharedBy": [{"namespace": "b", "name": "c"}]}
    assert causes(make("SourceIP", sharing, name="192.0.2.7")) == ["Forbidden spec.sharedBy"]


def test_names_of_what_the_controller_makes_fit_and_tell_nodes_apart() -> None:
    long = "n" * 200
    assert forwarder_name("ns", "db", "dfw-0") == f"ns.db.{node_digits('dfw-0')}"
    assert (node_label("dfw-0"), node_label(long)) == ("dfw-0", node_digits(long))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"interfaces":3}', '{"encryption":"magic"}', "x" * 20_000])
def test_a_node_that_says_nothing_readable_says_nothing(text: str) -> None:
    assert read_facts({ANNOTATION_NODE_FACTS: text}) is None


def test_node_facts_survive_a_round_trip_without_invalid_addresses() -> None:
    facts = NodeFacts([OutsideInterface("outside0", ["192.0.2.2/24", "nonsense"])], "userspace", True, "key")
    assert read_facts({ANNOTATION_NODE_FACTS: write_facts(facts)}) == facts
    assert interface_addresses(facts) == [("outside0", IPv4Address("192.0.2.2"), 24)]


def test_a_claim_asks_for_an_address_of_its_families() -> None:
    assert causes(make("SourceIPClaim", {"className": "a", "address": "2001:db8::1"})) == ["Invalid spec.address"]


@pytest.mark.parametrize(
    ("selector", "warned"),
    [
        ({"matchLabels": {"role": "egress"}}, True),
        ({"matchExpressions": [{"key": "role", "operator": "Exists"}]}, True),
        ({"matchLabels": {"role": "egress", "submariner.io/gateway": "true"}}, False),
        ({"matchLabels": {"node-restriction.kubernetes.io/egress": "yes"}}, False),
        (None, False),
    ],
)
def test_a_class_whose_gateways_could_label_themselves_is_warned_of(selector: Any, warned: bool) -> None:
    place = {"name": "dfw", **({"gatewaySelector": selector} if selector else {})}
    obj = make("SourceIPClass", {"ranges": [{"cidr": "192.0.2.0/28"}], "locations": [place]})
    told = served("SourceIPClass").strategy.warnings(obj, None)
    assert [each.partition(":")[0] for each in told] == (["spec.locations[0].gatewaySelector"] if warned else [])


OF_AN_IMPLEMENTATION = re.compile(
    "bpf|bridge|conntrack|geneve|ipset|iptables|ipvs|kernel|linux|macvlan|netfilter|netlink|netns|nft|ovs|socat|socket|"
    "ssh|veth|vlan|vni|vxlan|wireguard"
)


def words(schema: Schema) -> Iterator[str]:
    """Yield the names of all fields, and their descriptions."""
    yield schema.description or ""
    for name, field in (schema.fields or {}).items():
        yield name
        yield from words(field)
    if schema.items is not None:
        yield from words(schema.items)


def test_l4_what_forwarders_are_told_names_no_implementation() -> None:
    said = list(words(schema_of(Forwarder)))
    assert {"egressrules", "relayport", "transitip", "rulegeneration"} <= set(said)
    assert [each for each in said if OF_AN_IMPLEMENTATION.search(each.lower())] == []


def test_a_port_without_a_protocol_is_stored_with_tcp() -> None:
    obj = service()
    served("ExternalService").strategy.default(obj)
    assert obj["spec"]["ports"][0]["protocol"] == "TCP"


def test_a_class_of_an_earlier_version_keeps_ranges_that_no_host_can_have_until_they_change() -> None:
    old = address_class(ranges=[{"cidr": "127.0.0.0/28"}])
    assert errors_of({**old, "spec": {**old["spec"], "holdDown": "1h"}}, old) == []
    assert errors_of(address_class(ranges=[{"cidr": "127.0.0.0/27"}]), old) != []
