"""NetworkPolicies of `networking.k8s.io` apply to the default Network, and to no other."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Reach
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tests.decide.reach.worlds import ReachTown, interface

WEB = {"matchLabels": {"app": "web"}}
DB = {"matchLabels": {"app": "db"}}


@pytest.fixture
def town() -> ReachTown:
    """Return two pods on one network, on different nodes."""
    made = ReachTown()
    made.network()
    made.pod("web", interface("10.1.0.5"), labels={"app": "web"})
    ports = [{"name": "pg", "containerPort": 5432}]
    made.pod("db", interface("10.1.0.6"), node="n2", labels={"app": "db"}, ports=ports)
    return made


def message(found: Reach, rule: str) -> str:
    return next(line.message for line in found.paths[0].lines if line.rule == rule)


def test_a_policy_without_rules_lets_nothing_in(town: ReachTown) -> None:
    town.kubernetes_policy("closed", {"podSelector": DB})
    found = town.ask("web", "db", "pg")
    assert (found.answer, found.paths[0].lines[-1].reason) == ("No", reasons.INGRESS_DENIED)
    said = "NetworkPolicy.networking.k8s.io shop/closed selects shop/db, and does not allow it."
    assert found.paths[0].lines[-1].message == said
    assert town.ask("db", "web").answer == "Yes"


def test_a_policy_lets_in_what_a_rule_names_and_the_rule_is_named(town: ReachTown) -> None:
    town.kubernetes_policy(
        "db", {"podSelector": DB, "ingress": [{"from": [{"podSelector": WEB}], "ports": [{"port": "pg"}]}]}
    )
    found = town.ask("web", "db", "pg")
    assert found.answer == "Yes"
    assert message(found, "ingress") == "NetworkPolicy.networking.k8s.io shop/db ingress[0] allows it."
    assert town.ask("web", "db", 80).answer == "No"


def test_a_policy_of_egress_alone_leaves_ingress_open(town: ReachTown) -> None:
    town.kubernetes_policy("out", {"podSelector": WEB, "policyTypes": ["Egress"]})
    found = town.ask("web", "db")
    assert (found.answer, found.paths[0].lines[-1].reason) == ("No", reasons.EGRESS_DENIED)
    found = town.ask("db", "web")
    assert found.answer == "Yes"
    assert message(found, "ingress") == "No policy limits the ingress of shop/web."


def test_a_policy_with_egress_rules_limits_egress_and_ingress(town: ReachTown) -> None:
    town.kubernetes_policy("both", {"podSelector": WEB, "egress": [{"to": [{"podSelector": DB}]}]})
    assert town.ask("web", "db").answer == "Yes"
    assert town.ask("db", "web").answer == "No"


@pytest.mark.parametrize(
    ("block", "answer"),
    [
        ({"cidr": "10.1.0.5/24"}, "Yes"),  # stored with bits beyond the prefix, as Kubernetes allows
        ({"cidr": "010.1.0.0/16"}, "Yes"),
        ({"cidr": "10.1.0.0/16", "except": ["10.1.0.4/30"]}, "No"),
        ({"cidr": "10.2.0.0/16"}, "No"),
    ],
)
def test_ranges_of_addresses_count_in_every_form_that_kubernetes_stores(
    town: ReachTown, block: JsonObject, answer: str
) -> None:
    blocks: list[Any] = [{"ipBlock": block}, {"ipBlock": {"cidr": "fd20:1::/64"}}]
    six = blocks if answer == "Yes" else blocks[:1]
    town.kubernetes_policy("db", {"podSelector": DB, "ingress": [{"from": six}]})
    assert town.ask("web", "db").answer == answer
    town.datapath()  # every node compiles it


def test_other_networks_are_left_alone(town: ReachTown) -> None:
    town.network("shop/inner", "10.3.0.0/16", "fd20:2::/48")
    town.pod("one", interface("10.3.0.5", "shop/inner"), labels={"app": "db"})
    town.pod("two", interface("10.3.0.6", "shop/inner"), node="n2", labels={"app": "db"})
    town.kubernetes_policy("closed", {"podSelector": {}})
    assert town.ask("one", "two").answer == "Yes"
    assert town.ask("web", "db").answer == "No"


def test_a_policy_of_kubernetes_and_one_of_ours_add_up(town: ReachTown) -> None:
    town.kubernetes_policy("closed", {"podSelector": {}})
    town.policy("db", {"selector": DB, "ingress": [{"from": [{"podSelector": WEB}]}]})
    assert town.ask("web", "db").answer == "Yes"
    assert town.ask("db", "web").answer == "No"
