"""Explanations of Workloads with `enable-anycast`: a line for each city that announces the address, or does not."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import WORKLOADS

from .world import Scene, condition_of, workload

ADDRESS = "203.0.113.1"
SINCE = "2027-01-15T07:00:00Z"


def lines(status: dict[str, Any], annotation: str = "true") -> list[ExplanationLine]:
    """Return the lines about the address of a Workload with this status."""
    made = workload("DFW", "SEA")
    made["metadata"]["annotations"] = {"compute.datumapis.com/enable-anycast": annotation}
    made["status"] = status
    scene = Scene()
    scene.put(WORKLOADS.resource, made)
    found = EXPLAINERS[WORKLOADS.resource](scene.world, "default/web")
    assert found is not None
    return [each for each in found.verdicts if each.rule == "anycast"]


def test_a_city_that_announces_and_one_without_an_instance_have_a_line_each() -> None:
    cities = [
        {"city": "DFW", "announced": True, "instances": 1, "since": SINCE, "reason": "Announced"},
        {"city": "SEA", "announced": False, "instances": 0, "since": SINCE, "reason": "NoReadyInstance"},
    ]
    ready = condition_of("AnycastReady", True, "Announced", "DFW announces the address.")
    one, other = lines({"anycastAddresses": [ADDRESS], "anycast": cities, "conditions": [ready]})
    assert (one.city, one.answer, one.message) == ("DFW", "Yes", f"It announces {ADDRESS} since {SINCE}.")
    assert (other.city, other.answer, other.reason) == ("SEA", "Wait", "NoReadyInstance")
    assert other.message == "It has no ready instance, so it does not announce the address."


def test_an_address_that_no_city_announces_has_the_reason_of_its_condition() -> None:
    ready = condition_of("AnycastReady", False, "NoPool", "No AddressPool of scope Anycast gives IPv4 to default.")
    (line,) = lines({"conditions": [ready]})
    assert (line.answer, line.reason) == ("No", "NoPool")
    assert line.message.startswith("No AddressPool of scope Anycast")


def test_a_city_whose_session_is_down_says_so() -> None:
    city = {"city": "DFW", "announced": False, "instances": 1, "reason": "SessionDown"}
    (line,) = lines({"anycast": [city]})
    assert (line.city, line.answer, line.reason) == ("DFW", "No", "SessionDown")


def test_a_workload_without_the_annotation_has_no_line() -> None:
    ready = condition_of("AnycastReady", False, "NoPool", "left by an earlier annotation")
    assert lines({"conditions": [ready]}, annotation="false") == []
