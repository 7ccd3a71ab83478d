"""Conditions of a Forwarder and a Gateway: rules in force or not."""

from __future__ import annotations

import msgspec
import pytest

from tarmac.api.declare import decoder
from tarmac.api.egress.forwarding import Gateway, RuleError
from tarmac.api.schema import JsonObject
from tarmac.decide.egress.relayconditions import forwarder_findings, gateway_findings
from tarmac.decide.rollup.conditions import Finding

WRONG = RuleError("ns1/db", "the kernel does not take it")


def short(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(each.type, each.status, each.reason) for each in findings]


IN_FORCE = [("Programmed", "True", "RulesInForce"), ("Degraded", "False", "RulesInForce")]
AWAITED = [("Programmed", "False", "Programming"), ("Degraded", "False", "RulesInForce")]
REFUSED = [("Programmed", "False", "ProgrammingFailed"), ("Degraded", "True", "ProgrammingFailed")]


@pytest.mark.parametrize(
    ("read", "applied", "errors", "expected"),
    [(3, 3, [], IN_FORCE), (3, 2, [], AWAITED), (3, 2, [WRONG], REFUSED), (3, 3, [WRONG], REFUSED)],
)
def test_l5_a_forwarder_is_programmed_only_where_what_is_applied_is_what_was_read(
    read: int, applied: int, errors: list[RuleError], expected: list[tuple[str, str, str]]
) -> None:
    assert short(forwarder_findings(read, applied, errors)) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([], AWAITED),
        ([{"name": "a", "appliedGeneration": 3}], AWAITED),
        ([{"name": "a", "appliedGeneration": 3}, {"name": "b", "appliedGeneration": 2}], AWAITED),
        ([{"name": "a", "appliedGeneration": 3}, {"name": "b", "appliedGeneration": 3}], IN_FORCE),
        (
            [{"name": "a", "appliedGeneration": 3}, {"name": "b", "appliedGeneration": 3}, {"name": "voter"}],
            IN_FORCE,
        ),
        (
            [{"name": "a", "appliedGeneration": 3}, {"name": "b", "errors": [{"rule": "x", "message": "no"}]}],
            REFUSED,
        ),
    ],
)
def test_l5_a_gateway_is_programmed_only_where_every_node_that_may_carry_it_is(
    nodes: list[JsonObject], expected: list[tuple[str, str, str]]
) -> None:
    candidates = [{"name": "a"}, {"name": "b"}]
    assert short(gateway_findings(gateway(nodes, candidates))) == expected


def test_a_gateway_that_nobody_may_carry_says_so() -> None:
    found = short(gateway_findings(gateway([], [])))
    assert found == [("Programmed", "False", "NoGateway"), ("Degraded", "True", "NoGateway")]


def test_nodes_that_are_behind_or_failed_are_named() -> None:
    behind, _ = gateway_findings(gateway([{"name": "a", "appliedGeneration": 3}], [{"name": "a"}, {"name": "b"}]))
    assert behind.message == "The newest rules are not in force yet at b."
    nodes: list[JsonObject] = [{"name": "a", "errors": [{"rule": "x", "message": "no room"}]}]
    failed, _ = gateway_findings(gateway(nodes, [{"name": "a"}]))
    assert failed.message == "Rules could not be applied: a: no room"


def test_a_long_error_of_a_node_is_cropped_where_it_is_repeated() -> None:
    nodes: list[JsonObject] = [{"name": "a", "errors": [{"rule": "x", "message": "x" * 1_000_000}]}]
    assert all(len(each.message) < 600 for each in gateway_findings(gateway(nodes, [{"name": "a"}])))


def gateway(nodes: list[JsonObject], candidates: list[JsonObject]) -> Gateway:
    document = {
        "metadata": {"name": "192.0.2.5", "generation": 3},
        "spec": {"candidates": candidates},
        "status": {"nodes": nodes},
    }
    return decoder(Gateway)(msgspec.json.encode(document))
