"""Self-tests: one decides about a new address, three withdraw an announced one, and its return waits."""

from __future__ import annotations

import pytest

from tarmac.api.declare import decode
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.decide.ingress.selftests import (
    CALM,
    INTERVAL,
    MAX_HOLD,
    MAX_PER_SECOND,
    MAX_RETRIES,
    MIN_HOLD,
    RETRY,
    SelfTest,
    next_record,
    passing_gateways,
)

NEW = SelfTest()


def after(*results: bool, start: SelfTest = NEW, step: float = INTERVAL) -> SelfTest:
    """Return the record after tests at equal intervals."""
    found, now = start, start.tested_at
    for each in results:
        now += step
        found = next_record(found, now, passed=each)
    return found


def test_a_new_address_waits_for_a_test_that_passes_or_three_that_fail() -> None:
    assert SelfTest().state == after(False).state == after(False, False).state == "Pending"
    assert after(True).state == after(False, True).state == "Passed"
    failed = after(False, False, False)
    assert failed.state == "Failed"
    assert after(True, start=failed).state == "Passed", "no client has used it yet, so it need not wait"


@pytest.mark.parametrize(
    ("results", "state", "doubtful"),
    [
        ((False,), "Passed", False),
        ((False, False), "Passed", True),
        ((False, False, False), "Failed", True),
        ((False, False, True, False), "Passed", False),
    ],
)
def test_three_failures_in_a_row_withdraw_an_announced_address(
    results: tuple[bool, ...], state: str, doubtful: bool
) -> None:
    found = after(True, *results)
    assert (found.state, found.is_doubtful) == (state, doubtful)


def test_an_address_returns_only_after_it_has_passed_for_a_while() -> None:
    lost = after(True, False, False, False)
    assert lost.hold == MIN_HOLD
    assert after(True, start=lost).state == "Failed"
    assert after(True, True, start=lost).state == "Passed"
    assert after(True, False, True, start=lost).state == "Failed", "the time counts from the last failure"


def test_the_hold_doubles_up_to_a_minute_and_is_forgotten_after_a_calm() -> None:
    found, holds = after(True), list[float]()
    for _ in range(6):
        found = after(False, False, False, start=found)
        holds.append(found.hold)
        found = after(*[True] * 20, start=found)
        assert found.state == "Passed"
    assert holds == [5.0, 10.0, 20.0, 40.0, 60.0, MAX_HOLD]
    assert after(True, start=found, step=CALM + 1).hold == 0.0


def test_a_new_address_is_tested_again_soon_and_many_addresses_less_often() -> None:
    assert SelfTest().due_at(1) == 0.0
    failed = after(False)
    assert failed.due_at(1) == failed.tested_at + RETRY
    assert after(*[False] * MAX_RETRIES).due_at(1) == MAX_RETRIES * INTERVAL + INTERVAL, "not for ever"
    passed = after(True)
    assert passed.due_at(1) == passed.tested_at + INTERVAL
    assert passed.due_at(1000) == passed.tested_at + 1000 / MAX_PER_SECOND


def test_gateways_that_pass_are_those_without_an_obstacle() -> None:
    entries = [
        {"name": "announces", "announcing": True},
        {"name": "doubts", "announcing": True, "reason": "SelfTestFailed"},
        {"name": "candidate"},
        {"name": "idle-candidate", "reason": "NoEndpoints"},
        {"name": "only-endpoints"},
    ]
    spec = {"address": "192.0.2.1", "poolName": "p", "candidates": [{"name": "candidate"}, {"name": "idle-candidate"}]}
    found = decode(PublicAddress, {"metadata": {"name": "a"}, "spec": spec, "status": {"nodes": entries}})
    assert passing_gateways(found) == {"announces", "candidate"}
    found.status = None
    assert passing_gateways(found) == set()
