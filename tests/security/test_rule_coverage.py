"""Comparing whole rules finds exactly the result of comparing every single permission."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from tarmac.server.security.authorization.rulecoverage import TooComplex, missing_rights
from tarmac.server.security.authorization.rules import PolicyRule

VERBS = ["get", "list", "create", "*"]
GROUPS = ["", "apps", "*"]
RESOURCES = ["pods", "pods/log", "*/log", "*/scale", "deployments/scale", "*"]
NAMES = ["a", "b"]
URLS = ["/healthz", "/healthz/*", "/metrics", "/*", "*"]


def random_rule(dice: random.Random) -> PolicyRule:
    def some(values: list[str], least: int = 1) -> list[str]:
        return dice.choices(values, k=dice.randint(least, 3))

    if dice.random() < 0.2:
        return PolicyRule({"verbs": some(VERBS), "nonResourceURLs": some(URLS)})
    text: dict[str, Any] = {"verbs": some(VERBS), "apiGroups": some(GROUPS), "resources": some(RESOURCES)}
    return PolicyRule(text | {"resourceNames": some(NAMES, 0)})


def one_by_one(owned: list[PolicyRule], wanted: list[PolicyRule]) -> bool:
    """Return whether every single permission of `wanted` is covered."""
    for rule in wanted:
        kinds = product(rule.verbs, rule.groups, rule.resources, rule.names or [""])
        for verb, group, resource, name in kinds:
            kind, _, subresource = resource.partition("/")
            if not any(
                own.matches_kind(verb, group, kind, subresource) and (not own.names or name in own.names)
                for own in owned
            ):
                return False
        if not all(any(own.matches_url(verb, url) for own in owned) for verb, url in product(rule.verbs, rule.urls)):
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_as_if_taken_apart(seed: int) -> None:
    dice = random.Random(seed)
    covered = 0
    for _ in range(100):
        owned = [random_rule(dice) for _ in range(dice.randint(0, 6))]
        wanted = [random_rule(dice) for _ in range(dice.randint(1, 2))]
        covered += (expected := one_by_one(owned, wanted))
        assert (not missing_rights(owned, wanted)) is expected, (
            [rule.source for rule in owned],
            [rule.source for rule in wanted],
        )
    assert covered


def test_missing_rights_are_listed_by_resource() -> None:
    owned = [PolicyRule({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})]
    wanted = [
        PolicyRule({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "secrets"]}),
        PolicyRule({"verbs": ["watch"], "apiGroups": [""], "resources": ["secrets"]}),
    ]
    assert missing_rights(owned, wanted) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}',
    ]


def test_rules_that_are_all_different_are_not_compared_for_ever() -> None:
    dice = random.Random(1)

    def some(letter: str) -> list[str]:
        return [f"{letter}{dice.randrange(100)}" for _ in range(3)]

    owned = [PolicyRule({"verbs": some("v"), "apiGroups": some("g"), "resources": some("r")}) for _ in range(2000)]
    everything = {
        "verbs": [f"v{number}" for number in range(100)],
        "apiGroups": [f"g{number}" for number in range(100)],
        "resources": [f"r{number}" for number in range(100)],
    }
    with pytest.raises(TooComplex):
        missing_rights(owned, [PolicyRule(everything)])
