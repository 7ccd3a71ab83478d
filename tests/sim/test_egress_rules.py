"""The checker's rules about external services: each gets a history that breaks it, and one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.apps.simtrial import OUTSIDE_INTERVAL, TrialSettings, trial
from tarmac.decide.egress.lease.messages import Ask, Grant, Send
from tarmac.decide.egress.lease.voter import Voter
from tarmac.sim.checker.egressrules import FORWARDERS, SERVICES, SOURCE_IPS, STALE, unmet_outside
from tests.sim.test_the_checker import Telling


def address(uid: str, *, phase: str = "Bound", number: int = 1, text: str = "192.0.2.5") -> JsonObject:
    claim = {"claimRef": {"namespace": "team", "name": "c", "uid": uid}} if uid else {}
    return {"spec": {"address": text, **claim}, "status": {"phase": phase, "id": number}}


def forwarder(*rules: tuple[str, str], namespace: str = "team") -> JsonObject:
    made = [{"gatewayip": each, "transitip": transit, "pod": "p"} for each, transit in rules]
    return {"spec": {"externalService": {"namespace": namespace, "name": "db"}, "egressrules": made}}


def test_an_address_that_changes_hands_without_a_rest() -> None:
    story = Telling().says(0, SOURCE_IPS, "a", address("one"))
    assert story.says(1, SOURCE_IPS, "a", address("two")).broken == ["address-held-once"]
    rested = (
        Telling().says(0, SOURCE_IPS, "a", address("one")).says(1, SOURCE_IPS, "a", address("one", phase="Released"))
    )
    assert rested.says(2, SOURCE_IPS, "a", address("two", phase="Bound")).broken == []


def test_an_identity_that_two_addresses_have() -> None:
    story = Telling().says(0, SOURCE_IPS, "a", address("one")).says(1, SOURCE_IPS, "b", address("two", number=2))
    assert story.broken == []
    assert story.says(2, SOURCE_IPS, "c", address("three", number=2)).broken == ["address-held-once"]


def test_a_rule_under_an_address_that_nobody_of_the_namespace_holds() -> None:
    held = Telling().says(0, SOURCE_IPS, "a", address("one"))
    assert held.says(1, FORWARDERS, "f", forwarder(("192.0.2.5", "240.0.0.1"))).broken == []
    assert held.says(2, FORWARDERS, "g", forwarder(("192.0.2.6", "240.0.0.2"))).broken == ["rules-granted"]
    other = Telling().says(0, SOURCE_IPS, "a", address("one"))
    assert other.says(1, FORWARDERS, "f", forwarder(("192.0.2.5", "240.0.0.1"), namespace="shop")).broken != []


@pytest.mark.parametrize(("late", "broken"), [(STALE - 1, []), (STALE + 1, ["rules-granted"])])
def test_a_rule_under_an_address_that_was_held_a_moment_ago(late: float, broken: list[str]) -> None:
    story = (
        Telling().says(0, SOURCE_IPS, "a", address("one")).says(10, SOURCE_IPS, "a", address("one", phase="Released"))
    )
    assert story.says(10 + late, FORWARDERS, "f", forwarder(("192.0.2.5", "240.0.0.1"))).broken == broken


def test_a_transit_address_that_two_have() -> None:
    story = Telling().says(0, SOURCE_IPS, "a", address("one"))
    story.says(1, FORWARDERS, "f", forwarder(("192.0.2.5", "240.0.0.1")))
    assert story.says(2, FORWARDERS, "g", forwarder(("192.0.2.5", "240.0.0.1"))).broken == ["rules-granted"]


def test_a_service_that_is_only_on_its_way_is_waited_for() -> None:
    def said(reason: str) -> list[str]:
        conditions = [{"type": "Ready", "status": "False", "reason": reason}]
        story = Telling().says(0, SERVICES, "team/db", {"status": {"conditions": conditions}})
        return list(unmet_outside(story.checker.mirror))

    assert said("OwnerChanging")
    assert not said("ClaimNotFound")


def test_a_voter_that_promises_an_address_to_everybody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(_voter: Voter, sender: str, ask: Ask, *_: Any) -> Send:
        return Send(sender, Grant(ask.address, ask.epoch, ask.nonce))

    monkeypatch.setattr(Voter, "asked", asked)
    broken = {each.rule for each in trial(2 * OUTSIDE_INTERVAL, TrialSettings(patience=10.0)).violations}
    assert "carried-once" in broken
