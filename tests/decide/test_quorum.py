"""Members of a replicated store that may be lost or removed, and their report in `tarmac status`."""

from __future__ import annotations

import pytest

from tarmac.decide.quorum import quorum_problems, removal_refusal, spare, spare_text


def members(**responds: bool) -> dict[str, bool]:
    return responds


@pytest.mark.parametrize(
    ("responding", "count", "left"),
    [(1, 1, 0), (2, 2, 0), (1, 2, -1), (3, 3, 1), (2, 3, 0), (1, 3, -1), (4, 4, 1), (5, 5, 2), (2, 5, -1)],
)
def test_members_that_may_still_be_lost(responding: int, count: int, left: int) -> None:
    assert spare({str(number): number < responding for number in range(count)}) == left


def test_the_text_names_the_losses_that_are_survived() -> None:
    assert spare_text(members(a=True)) == "1 member, and the loss of it stops writes"
    assert spare_text(members(a=True, b=True)) == "2 members, and the loss of any of them stops writes"
    assert spare_text(members(a=True, b=True, c=True)) == "3 members, of which 1 may be lost"
    assert spare_text(members(a=True, b=True, c=False)) == "3 members, and the loss of any of them stops writes"


def test_a_removal_that_keeps_the_quorum_is_allowed() -> None:
    three = members(a=True, b=True, c=True)
    assert removal_refusal(three, "a") == ""
    assert removal_refusal({**three, "c": False}, "c") == "", "the lost one may go"
    assert removal_refusal(members(a=True, b=True), "b") == ""


@pytest.mark.parametrize(
    ("known", "name", "why"),
    [
        (members(a=True), "a", "a is the only member"),
        (members(a=True, b=True, c=False), "a", "of the others, c does not respond"),
        (members(a=True, b=False, c=False), "c", "1 of 3 members respond, and a change needs 2"),
        (members(a=True, b=False), "b", "1 of 2 members respond, and a change needs 2"),
    ],
)
def test_a_removal_that_loses_the_quorum_is_refused(known: dict[str, bool], name: str, why: str) -> None:
    assert why in removal_refusal(known, name)


def test_problems_name_the_member_and_the_remedy() -> None:
    assert quorum_problems({}) == []
    assert quorum_problems(members(a=True)) == [], "one server is a choice"
    assert quorum_problems(members(a=True, b=True, c=True)) == []
    assert quorum_problems(members(a=True, b=True)) == [
        "etcd has 2 members, and the loss of any of them stops writes; add a third: tarmac token create --server"
    ]
    assert quorum_problems(members(a=True, b=True, c=False)) == [
        "etcd member c does not respond, and one more loss stops writes; if its host is lost: tarmac etcd replace c"
    ]
    assert quorum_problems(members(a=True, b=False, c=False)) == [
        "etcd has no quorum, and the store takes no writes: b, c must respond again"
    ]
