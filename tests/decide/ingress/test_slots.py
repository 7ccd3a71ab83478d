"""The slots of gateways: equal on all gateways, fair by weight, and stable when nodes come and go."""

from __future__ import annotations

from collections import Counter

from tarmac.decide.ingress.slots import SLOTS, slots

NODES = {f"198.18.0.{number}": 2 for number in range(1, 11)}


def moved(before: tuple[str, ...], after: tuple[str, ...]) -> int:
    return sum(old != new for old, new in zip(before, after, strict=True))


def test_without_endpoints_there_are_no_slots():
    assert slots({}) == ()
    assert slots({"198.18.0.1": 0}) == ()


def test_the_order_in_which_nodes_are_listed_does_not_matter():
    assert slots(NODES) == slots(dict(reversed(NODES.items())))


def test_only_the_ratio_of_weights_counts_for_a_single_node():
    assert set(slots({"198.18.0.1": 7})) == {"198.18.0.1"}
    assert len(slots({"198.18.0.1": 7})) == SLOTS


def test_no_node_gets_more_than_a_tenth_above_its_share():
    counted = Counter(slots({"198.18.0.1": 1, "198.18.0.2": 3}))
    assert counted["198.18.0.1"] <= SLOTS / 4 * 1.1 + 1
    assert counted["198.18.0.2"] <= SLOTS * 3 / 4 * 1.1 + 1
    assert max(Counter(slots(NODES)).values()) <= SLOTS / 10 * 1.1 + 1


def test_a_node_that_goes_moves_few_slots_of_the_others():
    before = slots(NODES)
    gone = "198.18.0.4"
    after = slots({node: weight for node, weight in NODES.items() if node != gone})
    assert moved(before, after) - before.count(gone) <= SLOTS * 0.05


def test_a_node_that_comes_takes_little_more_than_its_share():
    after = slots(NODES | {"198.18.0.11": 2})
    assert moved(slots(NODES), after) <= SLOTS * 0.16


def test_more_nodes_than_slots_leave_some_without():
    many = slots({f"fd99::{number:x}": 1 for number in range(1, 400)})
    assert len(many) == SLOTS
    assert max(Counter(many).values()) <= 1
