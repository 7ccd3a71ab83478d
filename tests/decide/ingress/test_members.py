"""Candidates and voters of public addresses, from nodes, pools and the acknowledgements of candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tarmac.api.declare import Time, decode, encode
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import AnnouncingNode, PublicAddress
from tarmac.decide.ingress.members import address_members, candidates, owner_of
from tarmac.decide.pooled.nodeview import NodeView
from tests.decide.egress.worlds import node

HOLDER = {"kind": "Service", "namespace": "default", "name": "web", "uid": "u1"}
NODES = [node(name, number) for number, name in enumerate(("dfw-0", "dfw-1", "dfw-2", "dfw-3", "dfw-4"))]


def pool(**spec: Any) -> AddressPool:
    return decode(AddressPool, {"metadata": {"name": "public"}, "spec": {"ranges": [{"cidr": "192.0.2.0/24"}], **spec}})


def address(*heard: str, **spec: Any) -> PublicAddress:
    """Return an address that a Service holds; the nodes `heard` have acknowledged its newest generation."""
    spec = {"address": "192.0.2.5", "poolName": "public", "claimRef": HOLDER, **spec}
    nodes = [{"name": name, "appliedGeneration": 3} for name in heard]
    status = {"phase": "Bound", "nodes": nodes}
    return decode(PublicAddress, {"metadata": {"name": "192.0.2.5", "generation": 3}, "spec": spec, "status": status})


def step(known: PublicAddress, nodes: list[NodeView], *heard: str, offered: AddressPool | None = None) -> PublicAddress:
    """Return the address after the controller's next write."""
    chosen = address_members(known, offered or pool(), nodes)
    fields = {field: [encode(each) for each in getattr(chosen, field)] for field in chosen._fields}
    holder = encode(known.spec.claim_ref) if known.spec.claim_ref is not None else None
    return address(*heard, **fields, claimRef=holder)


def seen(known: PublicAddress) -> tuple[set[str], set[str], set[str]]:
    spec = known.spec
    candidates, voters, leaving = (
        {each.name[-1] for each in nodes} for nodes in (spec.candidates, spec.voters, spec.leaving)
    )
    return candidates, voters, leaving


def test_candidates_are_the_pools_ready_gateways_with_a_link_to_the_segment() -> None:
    bare, far = node("dfw-5", 5, facts=None), node("lhr-0", 9)
    lost, plain = node("dfw-6", 6, ready=False), node("dfw-7", 7, labels={})
    gateways = [replace(each, labels={**each.labels, "topology.datum.net/location": each.location}) for each in NODES]
    found = candidates(pool(locations=["dfw"]), "192.0.2.5", [*gateways, bare, far, lost, plain])
    assert {each.name for each in found.value or ()} == {each.name for each in NODES}
    assert candidates(pool(), "192.0.2.5", [plain]).refusals[0].reason == "NoGateway"
    assert candidates(pool(), "192.0.2.5", [bare]).refusals[0].reason == "NoOutsideInterface"


def test_the_order_of_candidates_differs_between_addresses_and_not_between_calls() -> None:
    def first(last: int, nodes: list[NodeView]) -> str:
        found = candidates(pool(), f"192.0.2.{last}", nodes)
        assert found.value is not None, found.refusals
        return found.value[0].name

    assert len({first(last, NODES) for last in range(5, 40)}) == len(NODES)
    assert [first(last, NODES) for last in range(5, 40)] == [first(last, NODES[::-1]) for last in range(5, 40)]


def test_a_cordoned_node_is_no_candidate_unless_it_owns_the_address_and_there_is_no_other() -> None:
    cordoned = [replace(each, cordoned=True) for each in NODES]
    assert [each.name for each in candidates(pool(), "192.0.2.5", [cordoned[0], NODES[1]]).value or ()] == ["dfw-1"]
    assert candidates(pool(), "192.0.2.5", cordoned).value is None
    found = candidates(pool(), "192.0.2.5", cordoned, owner="dfw-1").value or ()
    assert [each.name for each in found] == ["dfw-1"]


def test_a_node_with_as_many_virtual_links_as_it_may_is_no_candidate() -> None:
    full = {each.name: 256 for each in NODES}
    virtual = pool(announce="virtualMAC")
    assert candidates(virtual, "192.0.2.5", NODES, load=full).refusals[0].reason == "GatewayFull"
    assert candidates(virtual, "192.0.2.5", NODES, load=full, owner="dfw-2").value == (NODES[2],)
    assert len(candidates(pool(), "192.0.2.5", NODES, load=full).value or ()) == len(NODES)


def test_members_have_the_addresses_and_keys_of_their_nodes() -> None:
    (first, *_) = address_members(address(), pool(), NODES).candidates
    known = next(each for each in NODES if each.name == first.name)
    assert (first.address, first.city, first.public_key) == (known.address, known.city, f"key-{known.name}")


def test_voters_change_by_one_and_only_when_all_candidates_have_acknowledged() -> None:
    every = [each.name for each in NODES]
    known = step(address(), NODES[:3], *every[:3])
    assert seen(known) == ({*"012"}, {*"012"}, set())
    # Two new gateways: five voters are wanted, and join one by one.
    known = step(known, NODES)
    assert (seen(known)[0], len(seen(known)[1])) == ({*"01234"}, 4)
    for heard in ([], every[:4]):
        after = step(address(*heard, **members(known)), NODES)
        assert len(seen(after)[1]) == 4, f"only {heard} have acknowledged it"
    assert len(seen(step(address(*every, **members(known)), NODES))[1]) == 5


def members(known: PublicAddress) -> dict[str, Any]:
    fields = ("candidates", "voters", "leaving")
    return {field: [encode(each) for each in getattr(known.spec, field)] for field in fields}


def test_a_former_candidate_is_waited_for_until_it_acknowledges_or_its_node_is_gone() -> None:
    known = step(address(), NODES[:3])
    rest = ("dfw-1", "dfw-2")
    known = step(address(*rest, **members(known)), [replace(NODES[0], labels={}), *NODES[1:3]])
    assert seen(known) == ({*"12"}, {*"012"}, {"0"})
    unheard = step(address(*rest, **members(known)), [replace(NODES[0], labels={}), *NODES[1:]])
    assert seen(unheard)[1:] == ({*"012"}, {"0"}), "the former candidate's majority may still elect it"
    heard = step(address(*rest, "dfw-0", **members(known)), [replace(NODES[0], labels={}), *NODES[1:3]])
    assert seen(heard)[2] == set()
    gone = step(address(*rest, **members(known)), NODES[1:3])
    assert seen(gone)[2] == set()


def test_members_stay_when_no_node_is_able_while_it_rests_and_without_a_holder() -> None:
    known = step(address(), NODES[:3])
    assert seen(step(known, [replace(each, ready=False) for each in NODES])) == seen(known)
    resting = address(**members(known), claimRef=None)
    assert seen(step(resting, NODES)) == seen(known)


def test_an_address_announced_by_bgp_has_no_candidates_and_keeps_its_voters() -> None:
    routed = pool(announce="bgp")
    assert seen(step(address(), NODES, offered=routed)) == (set(), set(), set())
    known = step(address(), NODES[:3])
    changed = step(known, NODES[:3], offered=routed)
    assert seen(changed) == (set(), {*"012"}, {*"012"})
    assert seen(step(address("dfw-0", **members(changed)), NODES[:3], offered=routed))[2] == {*"12"}


def test_only_present_and_former_candidates_are_believed_to_own_an_address() -> None:
    known = address(candidates=[{"name": "a"}], leaving=[{"name": "b"}])
    assert known.status is not None

    def owner(*names: str) -> str:
        said = (
            AnnouncingNode(name, announcing=True, since=Time(f"2026-11-19T07:00:0{n}Z")) for n, name in enumerate(names)
        )
        known.status.nodes = list(said)  # type: ignore[union-attr]
        found = owner_of(known)
        return found.name if found is not None else ""

    assert owner("a", "b") == "b"
    assert owner("b", "a", "c") == "a"
    assert owner("c") == ""
