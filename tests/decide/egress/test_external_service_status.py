"""Sources, rules and status of one ExternalService: only granted, claimed and existing sources take effect."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from tarmac.api.declare import decode
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, ForwarderStatus, Gateway
from tarmac.api.shared import ObjectMeta
from tarmac.decide.egress.compiling import Compiled, compile_service
from tarmac.decide.egress.numbers import transit_number
from tarmac.decide.egress.sourceresolution import grants
from tarmac.decide.egress.sources import first_place, resolve
from tarmac.decide.egress.status import Observed, roll_up
from tarmac.decide.egress.views import EndpointView, PortView
from tests.decide.egress.making import address_class, bound, claim, service, source_ip
from tests.decide.egress.worlds import Plain, node, web

DIALLED = "169.254.192.9"


def reasons_of(wanted: ExternalService, world: Plain, index: int = 0) -> list[str]:
    return [each.reason for each in resolve(wanted, world).sources[index].refusals]


def remarks_of(wanted: ExternalService, world: Plain, index: int = 0) -> list[str]:
    return [each.reason for each in resolve(wanted, world).sources[index].remarks]


def compiled(wanted: ExternalService, world: Plain, known: dict[str, Forwarder] | None = None) -> Compiled:
    return compile_service(resolve(wanted, world), DIALLED, known or {}, set())


def test_pods_of_the_service_reach_the_target_from_the_claimed_address_and_it_reaches_them() -> None:
    made = compiled(service(), Plain())
    (spec,) = made.forwarders.values()
    assert (spec.node_name, spec.service_ip, spec.forwarder_ip) == ("dfw-0", DIALLED, "198.18.0.0")
    first, second = spec.egress_rules
    assert (first.source_ip, first.target_port, first.destination_ip, first.destination_port) == (
        ("10.128.0.2", 8000, "203.0.113.9", 5432)
    )
    assert (first.pod, first.network, first.gateway_ip, first.mark) == ("uid-a", "team/default", "192.0.2.5", 7)
    assert first.transit_ip == second.transit_ip, "one for each node, Network and address"
    back = spec.ingress_rules[0]
    assert (back.source_ip, back.target_port, back.destination_ip, back.destination_port) == (
        ("203.0.113.9", 80, "10.128.0.2", 8080)
    )
    part = made.gateways["192.0.2.5"]
    (out,), (into,) = part.egress, part.ingress
    assert (out.source_ip, out.destination_ip, out.destination_port) == (first.transit_ip, "203.0.113.9", 5432)
    assert out.forwarder_ip == "198.18.0.0"
    assert (into.source_ip, into.target_port, into.destination_ip, into.weight) == (
        ("203.0.113.9", 80, first.transit_ip, 2)
    )


def test_a_pod_that_dials_by_default_dials_the_servers_port() -> None:
    rules = compiled(service(ports=[{"port": 5432, "protocol": "SCTP"}]), Plain()).forwarders["dfw-0"].egress_rules
    assert {(rule.protocol, rule.target_port) for rule in rules} == {("SCTP", 5432)}


@pytest.mark.parametrize(
    ("allowed", "granted"),
    [("team", True), ("team/db", True), ("shop, team/db", True), ("*", True), ("", False), ("team/other", False)],
)
def test_another_namespace_must_grant_the_use_of_its_pods(allowed: str, granted: bool) -> None:
    assert grants(allowed, "team", "db") is granted
    world = Plain(services={"shop/web": web("x", namespace="shop")}, granted={"shop/web": allowed})
    world.put_pod("x", 2, namespace="shop")
    theirs = service(sources=[{"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}}])
    assert reasons_of(theirs, world) == ([] if granted else ["NotGranted"])
    assert bool(compiled(theirs, world).forwarders) is granted


def _lose_uid(world: Plain) -> None:
    world.source_ips["192.0.2.5"] = source_ip("192.0.2.5", claim("somebody", "else"))


@pytest.mark.parametrize(
    ("spec", "change", "reason"),
    [
        ({}, lambda world: world.services.clear(), "SourceServiceNotFound"),
        ({}, lambda world: world.claims.clear(), "ClaimNotFound"),
        ({}, lambda world: world.claims.update({"team/c": claim()}), "ClaimNotBound"),
        ({}, lambda world: world.claims.update({"team/c": claim(status={"phase": "Lost"})}), "AddressLost"),
        ({}, lambda world: world.source_ips.clear(), "AddressLost"),
        ({}, _lose_uid, "AddressLost"),
        ({}, lambda world: world.classes.clear(), "ClassNotFound"),
        ({}, lambda world: world.classes.update(partner=address_class(allowedNamespaces=None)), "NotAuthorized"),
        (
            {},
            lambda world: world.classes.update(partner=address_class(allowedTargets=["10.0.0.0/8"])),
            "TargetNotAllowed",
        ),
        ({"targetIP": "2001:db8::9"}, lambda world: None, "FamilyMismatch"),
        ({"gateway": {"location": "nowhere"}}, lambda world: None, "LocationNotFound"),
        (
            {"gateway": {"location": "ams"}},
            lambda world: world.classes.update(partner=address_class(locations=[{"name": "dfw"}])),
            "LocationNotInClass",
        ),
    ],
)
def test_whatever_is_missing_closes_the_source(spec: dict[str, Any], change: Any, reason: str) -> None:
    world = Plain()
    change(world)
    assert reasons_of(service(**spec), world) == [reason]
    assert compiled(service(**spec), world).forwarders == {}
    assert compiled(service(**spec), world).gateways == {}


def test_a_literal_address_counts_only_through_a_claim_of_the_own_namespace() -> None:
    literal = service(sources=[{"service": {"name": "web"}, "sourceIP": "192.0.2.5"}])
    assert reasons_of(literal, Plain()) == []
    world = Plain()
    world.claims = {"shop/c": bound("c", "192.0.2.5", "shop")}
    world.source_ips = {"192.0.2.5": source_ip("192.0.2.5", world.claims["shop/c"])}
    assert reasons_of(literal, world) == ["AddressNotClaimed"]


def test_one_bad_source_leaves_the_others_alone() -> None:
    sources = [
        {"service": {"name": "gone"}, "sourceIPClaim": {"name": "c"}},
        {"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}},
    ]
    both = service(sources=sources)
    assert reasons_of(both, Plain()) == ["SourceServiceNotFound"]
    assert len(compiled(both, Plain()).forwarders["dfw-0"].egress_rules) == 2


def test_an_exclusive_address_serves_the_oldest_alone() -> None:
    older = service("older", created="2026-11-16T09:00:00Z")
    assert reasons_of(service(), Plain(others=[older, service()])) == ["AddressInUse"]
    assert reasons_of(older, Plain(others=[older, service()])) == []
    shared = Plain(others=[older, service()])
    shared.classes["partner"] = address_class(sharing="Namespace")
    assert reasons_of(service(), shared) == []


def test_where_an_address_is_carried_the_oldest_decides() -> None:
    older = service("older", created="2026-11-16T09:00:00Z", gateway={"location": "dfw"})
    world = Plain(others=[older, service()])
    world.classes["partner"] = address_class(sharing="Namespace")
    assert reasons_of(service(gateway={"location": "ams"}), world) == ["LocationMismatch"]
    assert reasons_of(service(gateway={"location": "dfw"}), world) == []


def test_endpoints_that_are_no_pods_of_ours_are_left_out_and_named() -> None:
    world = Plain()
    good = web("a", "b").endpoints
    odd = [
        EndpointView("10.128.0.9", "", "", "team/default"),
        EndpointView("10.128.0.2", "a", "uid-of-its-predecessor", "team/default"),
        EndpointView("10.128.0.77", "b", "uid-b", "team/default"),
        EndpointView("10.128.0.3", "b", "uid-b", "other/network"),
    ]
    world.services["team/web"] = replace(web(), endpoints=(*good, *odd))
    assert remarks_of(service(), world) == ["NotAPod"] * 4
    assert len(resolve(service(), world).sources[0].pods) == 2
    world.pods["team/a"] = replace(world.pods["team/a"], host_network=True)
    assert remarks_of(service(), world)[0] == "HostNetworkPod"


def test_pods_on_nodes_that_cannot_carry_it_are_left_out_and_named() -> None:
    world = Plain()
    world.put_pod("b", 3, on="ams-0")
    world.nodes["ams-0"] = node("ams-0", 5, encryption="none", labels={})
    assert remarks_of(service(), world) == ["EncryptionUnavailable"]
    world.nodes["ams-0"] = replace(world.nodes["ams-0"], facts=None)
    assert remarks_of(service(), world) == ["NodeHasNoDatapath"]
    assert list(compiled(service(), world).forwarders) == ["dfw-0"]


def test_a_source_of_one_place_means_the_pods_there() -> None:
    world = Plain()
    world.put_pod("b", 3, on="ams-0")
    world.nodes["ams-0"] = node("ams-0", 5)
    source = {"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}, "location": "ams"}
    (found,) = resolve(service(sources=[source]), world).sources
    assert [pod.name for pod in found.pods] == ["team/b"]


def test_a_pod_in_two_sources_is_the_firsts() -> None:
    world = Plain()
    world.services["team/too"] = web("b", name="too")
    world.services["team/too"] = replace(web(name="too"), endpoints=web("a", "b").endpoints[1:])
    sources = [{"service": {"name": each}, "sourceIPClaim": {"name": "c"}} for each in ("web", "too")]
    first, second = resolve(service(sources=sources), world).sources
    assert (len(first.pods), len(second.pods)) == (2, 0)
    assert second.remarks[0].reason == "AmbiguousSource"


def test_the_way_back_is_open_only_where_the_class_and_the_source_say_so() -> None:
    source = {"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}
    shut = Plain(classes={"partner": address_class()})
    assert compiled(service(), shut).gateways["192.0.2.5"].ingress == []
    assert reasons_of(service(sources=[{**source, "inbound": True}]), shut) == ["InboundDenied"]
    assert compiled(service(sources=[{**source, "inbound": False}]), Plain()).gateways["192.0.2.5"].ingress == []
    narrow = Plain(classes={"partner": address_class(inbound={"policy": "FromTarget", "ports": [443]})})
    assert compiled(service(), narrow).gateways["192.0.2.5"].ingress == []


def test_the_target_reaches_ready_endpoints_or_those_that_still_serve() -> None:
    world = Plain()
    one, other = web("a", "b").endpoints
    world.services["team/web"] = replace(web(), endpoints=(replace(one, ready=False), other), client_affinity=True)
    (into,) = compiled(service(), world).gateways["192.0.2.5"].ingress
    assert (into.weight, into.affinity) == (1, "ClientIP")
    assert len(compiled(service(), world).forwarders["dfw-0"].egress_rules) == 2, "sources need not be ready"
    ending = (replace(one, ready=False, serving=False), replace(other, ready=False))
    world.services["team/web"] = replace(web(), endpoints=ending)
    (rule,) = compiled(service(), world).forwarders["dfw-0"].ingress_rules
    assert rule.pod == "uid-b"


def test_one_address_and_port_leads_the_target_to_one_service() -> None:
    world = Plain()
    world.services["team/too"] = replace(web(name="too"), endpoints=())
    sources = [{"service": {"name": each}, "sourceIPClaim": {"name": "c"}} for each in ("web", "too")]
    assert remarks_of(service(sources=sources), world, 1) == ["InboundConflict"]
    older = service("older", created="2026-11-16T09:00:00Z", sources=sources[1:])
    world.others = [older, service()]
    world.classes["partner"] = address_class(sharing="Namespace", inbound={"policy": "FromTarget"})
    assert remarks_of(service(), world) == ["InboundConflict"]
    other_target = service("older", created="2026-11-16T09:00:00Z", sources=sources[1:], targetIP="203.0.113.10")
    world.others = [other_target, service()]
    assert remarks_of(service(), world) == []


def test_two_external_services_of_one_service_do_not_conflict_and_the_older_lets_the_target_in() -> None:
    world = Plain()
    older = service("older", created="2026-11-16T09:00:00Z")
    world.others = [older, service()]
    world.classes["partner"] = address_class(sharing="Namespace", inbound={"policy": "FromTarget"})
    assert remarks_of(service(), world) == []
    assert compiled(service(), world).gateways["192.0.2.5"].ingress == []
    assert compiled(older, world).gateways["192.0.2.5"].ingress != []


def test_a_target_of_the_platform_makes_no_rule_at_all() -> None:
    world = Plain(held={ip_address("203.0.113.9"): "Network team/default 203.0.113.0/24"})
    found = resolve(service(), world)
    assert found.refusal is not None
    assert found.refusal.reason == "TargetInsidePlatform"
    assert compiled(service(), world) == Compiled()


def test_equal_pod_addresses_on_two_networks_travel_under_different_ones() -> None:
    world = Plain()
    world.services["shop/web"], world.granted["shop/web"] = web("x", namespace="shop"), "*"
    world.put_pod("x", 2, namespace="shop")
    sources = [
        {"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}},
        {"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}},
    ]
    rules = compiled(service(sources=sources), world).forwarders["dfw-0"].egress_rules
    same = {(rule.network, rule.transit_ip) for rule in rules if rule.source_ip == "10.128.0.2"}
    assert len(same) == len({transit for _, transit in same}) == 2


def test_transit_addresses_stay_when_anything_else_changes_and_are_nobody_elses() -> None:
    world = Plain()
    before = compiled(service(), world).forwarders["dfw-0"]
    known = {"dfw-0": Forwarder(ObjectMeta("f"), spec=before)}
    world.put_pod("b", 3, on="dfw-1")
    after = compile_service(resolve(service(ports=[{"port": 1}]), world), DIALLED, known, set()).forwarders
    assert after["dfw-0"].egress_rules[0].transit_ip == before.egress_rules[0].transit_ip
    assert after["dfw-1"].egress_rules[0].transit_ip != before.egress_rules[0].transit_ip
    taken = {transit_number(before.egress_rules[0].transit_ip)}
    clashing = compile_service(resolve(service(), Plain()), DIALLED, {}, taken).forwarders["dfw-0"]
    assert clashing.egress_rules[0].transit_ip != before.egress_rules[0].transit_ip


def observed(made: Compiled, *, applied: int = 1, owner: bool = True) -> Observed:
    said = {"nodes": [{"name": "dfw-1", "owner": owner, "epoch": 3, "appliedGeneration": applied}]}
    metadata = {"name": "192.0.2.5", "generation": 1}
    whole = {"metadata": metadata, "spec": {"candidates": [{"name": "dfw-1"}]}, "status": said}
    gateways = {name: decode(Gateway, whole) for name in made.gateways}
    forwarders = {
        name: Forwarder(ObjectMeta(name, generation=1), spec=spec, status=ForwarderStatus(applied_generation=applied))
        for name, spec in made.forwarders.items()
    }
    return Observed(forwarders, gateways)


def conditions(wanted: ExternalService, world: Plain, seen: Observed) -> dict[str, tuple[str, str]]:
    found = resolve(wanted, world)
    made = compile_service(found, DIALLED, {}, set())
    return {each.type: (each.status, each.reason) for each in roll_up(found, made, DIALLED, seen)[1]}


def test_it_is_ready_when_everybody_concerned_has_the_rules_and_somebody_carries_the_address() -> None:
    made = compiled(service(), Plain())
    said = conditions(service(), Plain(), observed(made))
    assert {status for status, _ in said.values()} == {"True"}
    status, _ = roll_up(resolve(service(), Plain()), made, DIALLED, observed(made))
    assert (status.addresses, status.hostname, status.networks) == (
        ([DIALLED], "db.team.external-services", ["team/default"])
    )
    assert status.summary is not None
    assert (status.summary.ports, status.summary.sources, status.summary.gateway) == ("8000:5432/TCP", "1/1", "dfw-1")
    (source,) = status.sources
    assert (source.pods_matched, source.pods_programmed, source.inbound_endpoints) == (2, 2, 2)


def test_ready_names_the_missing_part() -> None:
    made = compiled(service(), Plain())
    assert conditions(service(), Plain(), observed(made, applied=0))["Ready"] == ("False", "Programming")
    assert conditions(service(), Plain(), observed(made, owner=False))["Ready"] == ("False", "OwnerChanging")
    assert conditions(service(), Plain(services={"team/web": web()}), observed(made))["Ready"] == ("False", "NoPods")
    gone = conditions(service(), Plain(services={}), observed(made))
    assert (gone["SourcesResolved"], gone["Ready"]) == (("False", "SourceServiceNotFound"),) * 2
    unbound = Plain()
    unbound.claims["team/c"] = claim()
    said = conditions(service(), unbound, observed(made))
    assert (said["AddressesBound"], said["SourcesResolved"][0]) == (("False", "ClaimNotBound"), "True")


def test_a_node_that_is_down_holds_nobody_up() -> None:
    world = Plain()
    made = compiled(service(), world)
    world.nodes["dfw-0"] = replace(world.nodes["dfw-0"], ready=False)
    seen = observed(made, applied=1)
    seen.forwarders = {}
    assert conditions(service(), world, seen)["Ready"][0] == "True"


def test_the_cost_of_one_grows_with_its_own_pods_only() -> None:
    names = [f"p{number}" for number in range(1000)]
    world = Plain(services={"team/web": web(*names)})
    for number, name in enumerate(names, 2):
        world.pods[f"team/{name}"] = replace(
            world.pods["team/a"], uid=f"uid-{name}", addresses={"team/default": [f"10.128.0.{number}"]}
        )
    made = compiled(service(ports=[{"name": f"p{n}", "port": n} for n in range(1, 5)]), world)
    assert len(made.forwarders["dfw-0"].egress_rules) == 4000
    assert len(made.gateways["192.0.2.5"].egress) == 4


def test_ports_of_endpoints_are_found_by_name() -> None:
    world = Plain()
    two = (PortView("http", "TCP", 80), PortView("metrics", "TCP", 81))
    world.services["team/web"] = replace(web("a"), ports=two)
    assert [rule.target_port for rule in compiled(service(), world).forwarders["dfw-0"].ingress_rules] == [80]


def test_where_an_address_is_carried_is_not_known_before_a_pod_runs_at_a_location_of_its_class() -> None:
    world, two = Plain(), address_class(locations=[{"name": "ams"}, {"name": "dfw"}])
    assert first_place(service(), two, world) == "dfw", "the place of its pods"
    assert first_place(service(), address_class(locations=[{"name": "ams"}, {"name": "lhr"}]), world) == ""
    world.services["team/web"] = replace(web(), endpoints=())
    assert first_place(service(), two, world) == ""
    assert first_place(service(), address_class(locations=[{"name": "ams"}]), world) == "ams", "the only place"
    assert first_place(service(gateway={"location": "lhr"}), two, world) == "lhr", "the requested place"
