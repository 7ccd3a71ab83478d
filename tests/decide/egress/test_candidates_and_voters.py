"""Candidates are Ready, labelled, linked and not full nodes of the class; the owner's partner is first in line."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from msgspec import structs

from tarmac.api.egress.forwarding import Gateway, GatewayNode, GatewayNodeStatus, GatewaySpec, GatewayStatus
from tarmac.api.egress.nodefacts import NodeFacts
from tarmac.api.shared import ObjectMeta
from tarmac.decide.egress.addressclasses import class_findings
from tarmac.decide.egress.candidates import (
    can_tunnel,
    candidates,
    partners,
    voters,
)
from tarmac.decide.egress.gateways import gateway_spec, sharing
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.syncing import sync_pairs
from tarmac.decide.pooled.candidates import outside_interface
from tarmac.decide.pooled.members import next_voters
from tarmac.decide.pooled.nodeview import NodeView
from tests.decide.egress.making import address_class, source_ip
from tests.decide.egress.worlds import node

ADDRESS = "192.0.2.5"
SPEC = address_class().spec


def names(nodes: list[NodeView], **more: Any) -> list[str]:
    verdict = candidates(more.pop("spec", SPEC), ADDRESS, nodes, **more)
    assert verdict.value is not None, verdict.refusals
    return [each.name for each in verdict.value]


def refused(nodes: list[NodeView], **more: Any) -> str:
    verdict = candidates(more.pop("spec", SPEC), ADDRESS, nodes, **more)
    assert verdict.value is None
    return verdict.refusals[0].reason


def test_only_ready_labelled_linked_nodes_that_are_not_cordoned() -> None:
    good = node("dfw-0", 1)
    others = [
        replace(good, name="down", ready=False),
        replace(good, name="plain", labels={}),
        replace(good, name="cordoned", cordoned=True),
        replace(good, name="unlinked", facts=NodeFacts()),
        replace(good, name="strange", facts=None),
    ]
    assert names([good, *others]) == ["dfw-0"]
    assert refused([each for each in others if each.name in ("down", "plain")]) == "NoGateway"
    assert refused([each for each in others if each.name in ("unlinked", "strange")]) == "NoOutsideInterface"
    assert refused([each for each in others if each.name == "cordoned"]) == "NoGateway"


def test_a_cordoned_owner_goes_on_while_nobody_else_can_take_it() -> None:
    owner = node("dfw-0", 1, cordoned=True)
    assert names([owner], owner="dfw-0") == ["dfw-0"]
    assert names([owner, node("dfw-1", 2)], owner="dfw-0") == ["dfw-1"]


def test_the_partner_of_a_cordoned_owner_is_first_in_line() -> None:
    """Also where the order of the address, or the pairs of the remaining nodes, would differ."""
    nodes = [node(f"dfw-{n}", n) for n in range(4)]
    for owner, partner in partners(nodes).items():
        line = [replace(each, cordoned=each.name == owner) for each in nodes]
        assert names(line, owner=owner, shares=partner)[0] == partner
        assert owner not in names(line, owner=owner, shares=partner)
        assert owner not in names(line, owner=owner, shares=None), "once removed, it does not return"


def test_a_cordoned_owner_waits_until_its_partner_knows_its_connections() -> None:
    first, second, third = (node(f"dfw-{n}", n) for n in range(3))
    line = [replace(first, cordoned=True), replace(second, cordoned=True), third]
    assert names(line, owner="dfw-0", shares="dfw-1")[0] == "dfw-2"
    assert "dfw-0" in names(line, owner="dfw-0", shares="dfw-1")
    assert names(line, owner="dfw-0", shares="dfw-2") == ["dfw-2"]
    alone = [replace(each, facts=structs.replace(each.facts or NodeFacts(), state_sync=False)) for each in line]
    assert names(alone, owner="dfw-0", shares="") == ["dfw-2"], "without state sync no partner ever knows them"


def test_an_owner_that_cannot_encrypt_does_not_wait_as_a_cordoned_one_does() -> None:
    bare = node("dfw-0", 1, encryption="none")
    others = [node("dfw-1", 2), node("lhr-0", 3)]
    assert "dfw-0" not in names([bare, *others], owner="dfw-0", shares="")


def test_a_node_knows_the_owners_connections_when_both_say_so() -> None:
    def gateway(**said: str) -> Gateway:
        status = GatewayStatus(nodes=[GatewayNodeStatus(name, synced_with=other) for name, other in said.items()])
        spec = GatewaySpec(candidates=[GatewayNode("a"), GatewayNode("b")])
        return Gateway(ObjectMeta(name="g"), spec=spec, status=status)

    assert sharing(gateway(a="b", b="a"), "a") == "b"
    assert sharing(gateway(a="b", b=""), "a") == ""
    assert sharing(gateway(a="", b=""), "a") == ""
    assert sharing(gateway(a="b", b="a"), "c") is None
    assert sharing(None, "a") is None


def test_only_candidates_and_those_that_leave_the_line_are_believed_to_carry_an_address() -> None:
    def owner(*said: GatewayNodeStatus) -> str:
        spec = GatewaySpec(candidates=[GatewayNode("a")], leaving=[GatewayNode("b")], voters=[GatewayNode("c")])
        found = owner_of(Gateway(ObjectMeta(name="g"), spec=spec, status=GatewayStatus(nodes=list(said))))
        return found.name if found is not None else ""

    a, b, c = (GatewayNodeStatus(name, owner=True, epoch=epoch) for name, epoch in (("a", 1), ("b", 2), ("c", 9)))
    assert owner(a, b, c) == "b"
    assert owner(a, c) == "a"
    assert owner(c) == ""


def test_places_selectors_and_fullness_are_the_classs() -> None:
    ams = {"name": "ams", "gatewaySelector": {"matchLabels": {"edge": "yes"}}, "maxPerNode": 2}
    spec = address_class(locations=[{"name": "dfw"}, ams]).spec
    edge = node("ams-0", 3, labels={"edge": "yes"})
    nodes = [node("dfw-0", 1), node("ams-1", 2), edge, node("lhr-0", 4)]
    assert sorted(names(nodes, spec=spec)) == ["ams-0", "dfw-0"]
    assert names(nodes, spec=spec, location="ams") == ["ams-0"]
    assert refused([edge], spec=spec, load={"ams-0": 2}) == "GatewayFull"
    assert names([edge], spec=spec, load={"ams-0": 2}, owner="ams-0") == ["ams-0"]
    virtual = address_class(announce="virtualMAC").spec
    assert refused([node("dfw-0", 1)], spec=virtual, load={"dfw-0": 256}) == "GatewayFull"


def test_the_order_is_spread_over_addresses_and_the_partner_is_first() -> None:
    nodes = [node(f"dfw-{n}", n) for n in range(4)]
    first = {names(nodes)[0], *(candidates(SPEC, f"192.0.2.{n}", nodes).value[0].name for n in range(2, 14))}  # type: ignore[index]
    assert len(first) > 1, "first choices differ"
    assert names(nodes, owner="dfw-2")[0] == "dfw-3"
    assert names(nodes, owner="dfw-0")[0] == "dfw-1"


def test_partners_are_of_one_place_first() -> None:
    nodes = [node("ams-0"), node("dfw-0"), node("dfw-1"), node("dfw-2"), node("lhr-0")]
    pairs = partners(nodes)
    assert (pairs["dfw-0"], pairs["dfw-1"], pairs["ams-0"], pairs["dfw-2"]) == ("dfw-1", "dfw-0", "dfw-2", "ams-0")
    assert "lhr-0" not in pairs


def test_partners_are_gateways_that_can_share_connections() -> None:
    mute = node("dfw-1", 1, facts=structs.replace(node("dfw-1").facts or NodeFacts(), state_sync=False))
    pairs = partners([node("dfw-0"), mute, node("dfw-2")])
    assert pairs == {"dfw-0": "dfw-2", "dfw-2": "dfw-0"}
    bare = node("ams-0", encryption="none")
    assert partners([bare, node("dfw-0")]) == {}, "connection state between cities must be encrypted"
    assert partners([bare, node("dfw-0"), node("lhr-0")]) == {"dfw-0": "lhr-0", "lhr-0": "dfw-0"}


def test_a_class_says_whose_connections_nobody_else_knows_and_why() -> None:
    def said(*nodes: NodeView) -> tuple[str, str]:
        [_, found] = class_findings(address_class(), None, nodes)
        assert found.type == "Redundant"
        return found.reason, found.message

    mute = node("dfw-1", 1, facts=structs.replace(node("dfw-1", 1).facts or NodeFacts(), state_sync=False))
    assert said(node("dfw-0", 0), mute, node("dfw-2", 2)) == (
        "NotSynced",
        "Connections of dfw-1 are known to no other gateway: conntrackd does not run there.",
    )
    assert said(*(node(f"dfw-{n}", n) for n in range(3))) == (
        "NotSynced",
        "Connections of dfw-2 have no copy on another gateway: the remaining gateways are pairs.",
    )
    assert said(*(node(f"dfw-{n}", n) for n in range(4)))[0] == "Redundant"


def test_one_gateway_shares_connections_with_one_other_and_both_agree() -> None:
    def gateway(**pairs: str) -> Gateway:
        made = [GatewayNode(name, partner=partner) for name, partner in pairs.items()]
        return Gateway(ObjectMeta(name="x"), spec=GatewaySpec(candidates=made))

    twice = [gateway(a="b", b="a"), gateway(a="b", b="a")]
    assert sync_pairs([*twice, gateway(b="c", c="b"), gateway(c="d", d="c")]) == {
        "a": "b", "b": "a", "c": "d", "d": "c",
    }  # fmt: skip
    assert sync_pairs([gateway(a="b", b="c", c="")]) == {}, "both must name each other"


@pytest.mark.parametrize(
    ("able", "others", "wanted"),
    [
        (["a"], [], ["a"]),
        (["a", "b"], [], ["a"]),
        (["a"], ["b", "c", "d"], ["a", "b", "c"]),
        (["a", "b", "c"], ["d"], ["a", "b", "c"]),
        (["a", "b", "c", "d"], [], ["a", "b", "c"]),
        (["a", "b", "c", "d"], ["e"], ["a", "b", "c", "d", "e"]),
        (["a", "b", "c", "d", "e", "f", "g"], [], ["a", "b", "c", "d", "e"]),
    ],
)
def test_voters_are_odd_at_most_five_and_one_where_two_could_not_agree(
    able: list[str], others: list[str], wanted: list[str]
) -> None:
    chosen = voters(SPEC, [node(each) for each in able], [node(each) for each in (*able, *others)])
    assert [each.name for each in chosen] == wanted


@pytest.mark.parametrize(
    ("able", "others", "wanted"),
    [
        ("dfw-0 dfw-1 sea-0", "lhr-0", "dfw-0 sea-0 lhr-0"),
        ("dfw-0 sea-0", "dfw-1 lhr-0", "dfw-0 sea-0 lhr-0"),
        ("dfw-0 dfw-1 dfw-2 sea-0", "lhr-0 lhr-1", "dfw-0 dfw-1 sea-0 lhr-0 lhr-1"),
        ("dfw-0 dfw-1 dfw-2 dfw-3 dfw-4 dfw-5 sea-0 lhr-0", "", "dfw-0 sea-0 lhr-0"),
    ],
)
def test_no_city_has_most_votes_on_an_address_that_another_city_could_carry(
    able: str, others: str, wanted: str
) -> None:
    nodes = [node(each) for each in (able + " " + others).split()]
    assert [each.name for each in voters(SPEC, nodes[: len(able.split())], nodes)] == wanted.split()


def test_two_cities_alone_cannot_help_it_and_one_city_needs_no_votes_from_elsewhere() -> None:
    two = [node(each) for each in ("dfw-0", "sea-0", "dfw-1")]
    assert [each.name for each in voters(SPEC, two, two)] == ["dfw-0", "sea-0", "dfw-1"]
    one = [node(each) for each in ("dfw-0", "dfw-1", "dfw-2")]
    assert [each.name for each in voters(SPEC, one, [*one, node("sea-0"), node("lhr-0")])] == [
        "dfw-0",
        "dfw-1",
        "dfw-2",
    ]


def test_voters_stay_when_the_order_of_candidates_changes_with_the_owner() -> None:
    nodes = [node("dfw-0", 1), node("dfw-1", 2), node("lhr-0", 3), node("sea-0", 4, labels={})]
    for owner in ("", "dfw-0", "dfw-1", "lhr-0"):
        able = candidates(SPEC, ADDRESS, nodes, owner=owner).value or ()
        for current in (("dfw-0", "lhr-0", "sea-0"), ("dfw-1", "lhr-0", "sea-0")):
            assert {each.name for each in voters(SPEC, able, nodes, current)} == set(current)


def test_voters_change_one_at_a_time_and_wait_to_be_acknowledged() -> None:
    current, wanted, seen = ["a", "b", "c"], ["c", "d", "e"], [["a", "b", "c"]]
    assert next_voters([], wanted, acknowledged=True) == wanted
    assert next_voters(current, wanted, acknowledged=False) == current
    while set(current) != set(wanted):
        current = next_voters(current, wanted, acknowledged=True)
        assert len(set(current) ^ set(seen[-1])) == 1
        seen.append(current)
    assert next_voters(current, wanted, acknowledged=True) == current


def test_voters_wait_for_a_candidate_that_left_without_a_word_until_it_has_heard_or_is_removed() -> None:
    """A cut-off candidate may continue with its majority: two further steps would outvote it."""
    nodes = [node(name) for name in ("a", "b", "c", "d", "e")]

    def step(known: Gateway | None, able: str, there: str = "abcde", heard: str = "") -> Gateway:
        views = [each for each in nodes if each.name in there]
        made = gateway_spec(
            known, source_ip(ADDRESS), address_class(), [], [each for each in views if each.name in able], views
        )
        generation = known.metadata.generation + 1 if known is not None else 1
        said = [GatewayNodeStatus(name, generation) for name in heard]
        return Gateway(ObjectMeta(name="x", generation=generation), spec=made, status=GatewayStatus(nodes=said))

    def seen(gateway: Gateway) -> tuple[str, str]:
        voting, leaving = gateway.spec.voters, gateway.spec.leaving
        return "".join(each.name for each in voting), "".join(each.name for each in leaving)

    before = step(None, "abc", heard="abc")
    assert seen(before) == ("abc", "")
    cut_off = step(before, "de", heard="de")
    assert seen(cut_off) == ("abcd", "abc"), "one step, so new and old majorities share a voter"
    assert seen(step(cut_off, "de", heard="de")) == ("abcd", "abc")
    partly = step(cut_off, "de", heard="abde")
    assert seen(step(partly, "de", heard="de")) == ("abcd", "c")
    assert seen(step(partly, "de", there="abde", heard="de")) == ("abcde", ""), "a removed Node does not come back"
    back = step(step(partly, "de", heard="cde"), "de", heard="de")
    assert seen(back)[1] == ""
    assert len(back.spec.voters) == 5
    again = step(partly, "cde", heard="cde")
    assert seen(again) == ("abcd", ""), "a returning candidate acknowledges as one"


def test_the_outside_interface_is_the_named_one_or_the_one_on_the_segment() -> None:
    facts = node("dfw-0", 1).facts
    assert outside_interface(facts, SPEC, ip_address(ADDRESS)) == "outside0"
    assert (
        outside_interface(facts, address_class(subnet={"interface": "outside0"}).spec, ip_address(ADDRESS))
        == "outside0"
    )
    assert outside_interface(facts, address_class(subnet={"interface": "eth9"}).spec, ip_address(ADDRESS)) is None
    assert outside_interface(facts, SPEC, ip_address("2001:db8::1")) is None
    assert outside_interface(None, SPEC, ip_address(ADDRESS)) is None


def test_a_gateway_that_cannot_encrypt_is_no_candidate_where_there_are_others_and_other_cities() -> None:
    good, bad = node("dfw-0"), node("dfw-1", 2, encryption="none")
    far = node("lhr-0", 3, labels={})
    assert names([good, bad, far]) == ["dfw-0"]
    assert sorted(names([good, bad])) == ["dfw-0", "dfw-1"], "one city needs no encryption"
    assert names([bad, far]) == ["dfw-1"], "the only candidate"
    unwanted = node("dfw-1", 2, encryption="off")
    assert sorted(names([good, unwanted, far])) == ["dfw-0", "dfw-1"]


def test_tunnels_between_cities_are_encrypted_at_both_ends_or_at_none() -> None:
    def pair(one: str, other: str, city: str = "ams-0") -> bool:
        return can_tunnel(node("dfw-0", encryption=one), node(city, encryption=other))

    assert pair("none", "none", "dfw-1")
    assert pair("kernel", "userspace")
    assert pair("off", "off")
    assert not pair("kernel", "none")
    assert not pair("off", "kernel")
