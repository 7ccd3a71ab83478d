"""Desired egress state of a node, compiled from API objects."""

from __future__ import annotations

import json

import pytest

from benchmarks import external_many
from tarmac.agent.egress import compiling
from tarmac.agent.egress.compiling import NoOutsideInterface, compile_state, concerns, outside_of
from tarmac.agent.egress.leases.addressconfig import address_config
from tarmac.api.declare import decoder, encode
from tarmac.api.egress.forwarding import Forwarder, Gateway, GatewayNode
from tarmac.api.egress.sourceip import ClassSubnet
from tarmac.datapath.egress import Arrival, Departure, EncryptedPeer, Entrance, Exit, OutsideLink
from tests.attacking import TWICE

HERE, THERE = "198.18.0.1", "198.18.0.2"
ADDRESS, TARGET, TRANSIT, DIAL = "192.0.2.5", "203.0.113.9", "240.0.0.7", "169.254.192.7"
NOW = 1_700_000_000.0
INTERFACES = {"eth0": [f"{HERE}/24"], "outside0": ["192.0.2.2/24", "fd00:122::2/64"]}
PLACES = {"u1": {("default/default", "10.128.0.5")}}

FORWARDER = f"""{{"metadata": {{"name": "default.db.0", "generation": 3}}, "spec": {{
  "externalService": {{"namespace": "default", "name": "db", "uid": "s"}}, "nodeName": "n1", "serviceip": "{DIAL}",
  "forwarderip": "{HERE}", "egressrules": [{{"protocol": "TCP", "sourceip": "10.128.0.5", "targetport": 8000,
    "destinationip": "{TARGET}", "destinationport": 5432, "gateway": {{"name": "{ADDRESS}"}}, "gatewayip": "{ADDRESS}",
    "pod": "u1", "network": "default/default", "transitip": "{TRANSIT}", "mark": 11}}],
  "ingressrules": [{{"protocol": "TCP", "sourceip": "{TARGET}", "targetport": 80, "destinationip": "10.128.0.5",
    "destinationport": 8080, "gateway": {{"name": "{ADDRESS}"}}, "gatewayip": "{ADDRESS}", "pod": "u1",
    "network": "default/default", "transitip": "{TRANSIT}", "mark": 11, "affinity": "ClientIP"}}]}}}}"""

GATEWAY = f"""{{"metadata": {{"name": "{ADDRESS}", "generation": 2}}, "spec": {{"gatewayip": "{ADDRESS}", "mark": 11,
  "candidates": [{{"name": "n1", "address": "{HERE}"}}, {{"name": "n2", "address": "{THERE}"}}],
  "voters": [{{"name": "n3", "address": "198.18.0.3"}}], "limits": {{"egressBandwidth": "100M", "connections": 5}},
  "egressrules": [{{"sourceip": "{TRANSIT}", "destinationip": "{TARGET}", "destinationport": 5432,
    "forwarderip": "{THERE}", "forwarder": {{"name": "default.db.0a0b0c0d"}}}}],
  "ingressrules": [{{"sourceip": "{TARGET}", "targetport": 80, "destinationip": "{TRANSIT}", "destinationport": 80,
    "forwarderip": "{THERE}", "weight": 2}}]}}, "status": {{"nodes": [{{"name": "n2", "owner": true, "epoch": 4}},
    {{"name": "n1", "epoch": 3}}]}}}}"""


def forwarder(text: str = FORWARDER) -> Forwarder:
    return decoder(Forwarder)(text.encode())


def gateway(text: str = GATEWAY) -> Gateway:
    return decoder(Gateway)(text.encode())


def test_rules_become_ways_in_both_directions() -> None:
    made = compile_state("n1", HERE, [forwarder()], [gateway()], PLACES, INTERFACES)
    (own,) = made.state.forwardings
    assert own.name == "default/db"
    assert own.departures == (
        Departure("default/default", "10.128.0.5", DIAL, "TCP", 8000, TARGET, 5432, TRANSIT, ADDRESS),
    )
    assert own.arrivals == (
        Arrival("default/default", TARGET, TRANSIT, "TCP", 80, ("10.128.0.5", 8080), ADDRESS, affinity=True),
    )
    (address,) = made.state.sources
    assert address.outside == OutsideLink("outside0", "192.0.2.0/24")
    assert address.exits == (Exit(TRANSIT, THERE, TARGET, "TCP", 5432, "default/db"),)
    assert address.entrances == (Entrance(TARGET, "TCP", 80, TRANSIT, THERE, 2),)
    assert (address.connections, address.out_rate, address.in_rate) == (5, 100_000_000, None)
    assert (made.ownable, made.problems) == ({ADDRESS}, {})


def test_l4_a_relay_port_is_kept_and_changes_nothing() -> None:
    """The KEP's only field for one particular implementation has no meaning in this one."""
    with_ports = [text.replace('"targetport"', '"relayport": 2049, "targetport"') for text in (FORWARDER, GATEWAY)]
    assert [each.count("relayport") for each in with_ports] == [2, 1]
    kept, known = forwarder(with_ports[0]), gateway(with_ports[1])
    assert {rule["relayport"] for rule in encode(kept.spec)["egressrules"]} == {2049}
    made = compile_state("n1", HERE, [kept], [known], PLACES, INTERFACES)
    assert made == compile_state("n1", HERE, [forwarder()], [gateway()], PLACES, INTERFACES)


def test_a_gateway_knows_its_partner_and_which_addresses_have_a_hardware_address_of_their_own() -> None:
    virtual = gateway(GATEWAY.replace('"mark": 11,', '"mark": 11, "announce": "virtualMAC",', 1))
    made = compile_state("n1", HERE, [], [virtual], PLACES, INTERFACES, "n2")
    (address,) = made.state.sources
    assert address.outside == OutsideLink("outside0", "192.0.2.0/24", virtual=True)
    assert made.state.partner == THERE


def test_a_node_that_may_not_carry_an_address_knows_only_who_may() -> None:
    made = compile_state("n4", "198.18.0.4", [], [gateway()], {}, INTERFACES)
    (address,) = made.state.sources
    assert (address.outside, address.exits, address.candidates) == (None, (), (HERE, THERE))
    assert made.state.empty
    assert not made.ownable


@pytest.mark.parametrize(
    "places",
    [{}, {"u2": {("default/default", "10.128.0.5")}}, {"u1": {("default/other", "10.128.0.5")}}],
    ids=["no pod", "another pod with its address", "another Network"],
)
def test_a_rule_of_a_pod_that_is_not_here_is_left_out_and_told(places: dict[str, set[tuple[str, str]]]) -> None:
    made = compile_state("n1", HERE, [forwarder()], [gateway()], places, INTERFACES)
    assert [each.ways for each in made.state.forwardings] == [()]
    (problem,) = made.problems["default.db.0"]
    assert "no pod of that uid is here with 10.128.0.5 on default/default" in problem.message


@TWICE
def test_a2_a_pod_that_got_the_address_of_one_that_is_gone_gets_its_rules(
    monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        monkeypatch.setattr(compiling, "_is_here", lambda *_: True)
    places = {"u2": {("default/default", "10.128.0.5")}}
    (found,) = compile_state("n1", HERE, [forwarder()], [gateway()], places, INTERFACES).state.forwardings
    assert [each.pod for each in found.departures] == ([] if defended else ["10.128.0.5"])
    assert bool(found.arrivals) is not defended


def test_rules_of_another_node_or_for_other_tunnels_are_nobodys() -> None:
    other = forwarder(FORWARDER.replace('"n1"', '"n9"'))
    assert compile_state("n1", HERE, [other], [], PLACES, {}).state.forwardings == ()
    made = compile_state("n1", "198.18.0.9", [forwarder()], [], PLACES, {})
    assert (made.state.forwardings, list(made.problems)) == ((), ["default.db.0"])


@pytest.mark.parametrize(
    ("subnet", "address", "found"),
    [
        (None, ADDRESS, OutsideLink("outside0", "192.0.2.0/24")),
        (None, "fd00:122::200", OutsideLink("outside0", "fd00:122::/64")),
        (
            ClassSubnet(gateway="192.0.2.1", prefix_length=24),
            ADDRESS,
            OutsideLink("outside0", "192.0.2.0/24", "192.0.2.1"),
        ),
        (ClassSubnet(gateway="192.0.2.1"), "fd00:122::200", OutsideLink("outside0", "fd00:122::/64")),
        (ClassSubnet(prefix_length=16), "192.0.77.5", OutsideLink("outside0", "192.0.0.0/16")),
        (ClassSubnet(interface="eth0", prefix_length=24), ADDRESS, OutsideLink("eth0", "192.0.2.0/24")),
    ],
)
def test_the_interface_is_the_one_on_the_segment_of_the_address(
    subnet: ClassSubnet | None, address: str, found: OutsideLink
) -> None:
    assert outside_of(subnet, address, INTERFACES) == found


def test_without_such_an_interface_it_is_said_and_nothing_is_carried() -> None:
    with pytest.raises(NoOutsideInterface, match="no interface of the node has an address on the segment of 198"):
        outside_of(None, "198.51.100.5", INTERFACES)
    with pytest.raises(NoOutsideInterface, match="no interface eth9"):
        outside_of(ClassSubnet(interface="eth9"), ADDRESS, INTERFACES)
    made = compile_state("n1", HERE, [], [gateway()], {}, {"eth0": [f"{HERE}/24"]})
    assert not made.ownable
    assert list(made.problems) == [ADDRESS]


def test_leases_are_told_who_owned_it_last_and_who_sends_by_it() -> None:
    terms = address_config(gateway(), node="n1", can_own=True, routes_through=True, now=NOW)
    assert (terms.epoch, terms.owner, terms.senders) == (4, "n2", {THERE})
    assert (list(terms.candidates), list(terms.voters), terms.can_own) == (["n1", "n2"], ["n3"], True)
    assert not address_config(gateway(), node="n4", can_own=True, routes_through=False, now=NOW).can_own
    assert concerns(gateway(), "n3", set())
    assert not concerns(gateway(), "n4", set())
    assert concerns(gateway(), "n4", {ADDRESS})


def test_an_epoch_that_no_address_can_have_reached_does_not_count() -> None:
    """Servers of earlier versions accepted such epochs: the address recovers from a poisoned Gateway by itself."""
    poisoned = gateway()
    assert poisoned.status is not None
    poisoned.status.nodes[0].epoch = 2**62
    terms = address_config(poisoned, node="n1", can_own=True, routes_through=True, now=NOW)
    assert terms.epoch < 100


def told(name: str, address: str, *senders: tuple[str, str, str, str]) -> Gateway:
    """Return a Gateway that n2 in Dallas may carry, and nodes that send through it, by name, address, city and key."""
    made = gateway(GATEWAY.replace(ADDRESS, address))
    made.metadata.name = name
    made.spec.candidates = [GatewayNode("n2", THERE, "DFW", "key-2")]
    made.spec.senders = [GatewayNode(*each) for each in senders]
    return made


SENDER = ("n1", HERE, "LHR", "key-1")


def test_nodes_of_other_cities_are_spoken_with_encrypted_and_those_of_ones_own_are_not() -> None:
    made = compile_state("n1", HERE, [forwarder()], [told(ADDRESS, ADDRESS, SENDER)], PLACES, {})
    assert made.state.peers == (EncryptedPeer(THERE, "key-2"),)
    near = ("n1", HERE, "DFW", "key-1")
    assert compile_state("n1", HERE, [forwarder()], [told(ADDRESS, ADDRESS, near)], PLACES, {}).state.peers == ()
    off = compile_state("n1", HERE, [forwarder()], [told(ADDRESS, ADDRESS, SENDER)], PLACES, {}, encrypt=False)
    assert off.state.peers == ()
    idle = compile_state("n3", "198.18.0.3", [], [told(ADDRESS, ADDRESS, SENDER)], {}, {})
    assert idle.state.peers == (), "a voter without pods sends nothing through tunnels"


def test_a_gateway_takes_packets_from_the_nodes_that_it_is_told_of_and_is_closed_to_others() -> None:
    def carrier(*gateways: Gateway) -> tuple[EncryptedPeer, ...]:
        for each in gateways:
            for rule in (*each.spec.egress_rules, *each.spec.ingress_rules):
                rule.forwarder_ip = HERE
        return compile_state("n2", THERE, [], gateways, {}, INTERFACES).state.peers

    assert carrier(told("a", ADDRESS, SENDER)) == (EncryptedPeer(HERE, "key-1"),)
    assert carrier(told("a", ADDRESS)) == (EncryptedPeer(HERE),), "a node that no Gateway names is closed"
    another = told("b", "192.0.2.6", ("n1", HERE, "LHR", "key-of-before"))
    assert carrier(told("a", ADDRESS, SENDER), another) == (EncryptedPeer(HERE),), "closed until all Gateways agree"
    liar = ("n9", HERE, "LHR", "key-9")
    assert carrier(told("a", ADDRESS, SENDER, liar)) == (EncryptedPeer(HERE),), "two nodes claim one address"
    near = ("n9", HERE, "DFW", "key-9")
    assert carrier(told("a", ADDRESS, SENDER, near)) == (EncryptedPeer(HERE),)


def test_the_objects_of_the_benchmark_are_rules_that_a_node_applies() -> None:
    """The benchmark waits until its node applies all rules, so invalid ones make it fail only after minutes."""
    uids = [f"uid-{number}" for number in range(external_many.PODS_EACH)]
    gateways = [gateway(json.dumps(each)) for each in external_many.gateways()]
    forwarders = [forwarder(json.dumps(each)) for each in external_many.forwarders(uids)]
    pods = {uid: {(external_many.NETWORK, f"10.128.0.{10 + number}")} for number, uid in enumerate(uids)}
    outside = {"outside0": ["192.168.120.2/21"]}
    made = compile_state(external_many.NODE, external_many.ADDRESS, forwarders, gateways, pods, outside)
    assert made.problems == {}
    assert len(made.ownable) == external_many.ADDRESSES
    assert sum(len(each.departures) for each in made.state.forwardings) == 3_000
    assert sum(len(each.exits) for each in made.state.sources) == 500
