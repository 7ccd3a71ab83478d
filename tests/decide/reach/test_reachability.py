"""Every rule of the network question: its Yes, its No, and its message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.api.compute.explanations import ExplanationLine, Reach, Reachability
from tarmac.api.networking.ports import NODES_OWN
from tarmac.decide import reasons
from tarmac.decide.reach.question import BadQuestion
from tarmac.decide.reach.reachability import NoSuchTarget
from tests.decide.reach.worlds import PODS, POLICIES, ReachTown, interface

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


def last(found: Reach, path: int = 0) -> ExplanationLine:
    return found.paths[path].lines[-1]


def rules(found: Reach, path: int = 0) -> list[tuple[str, str]]:
    return [(line.rule, line.answer) for line in found.paths[path].lines]


def message(found: Reach, rule: str, path: int = 0) -> str:
    return next(line.message for line in found.paths[path].lines if line.rule == rule)


def flips(town: ReachTown, found: Reachability, ask: Any) -> None:
    """Assert that applying `change` turns the answer into a Yes."""
    where, _, rule = found.change.partition(": ")
    _, _, _, key, place = where.split()  # Add to NetworkPolicy shop/db spec.ingress
    town.objects[POLICIES][key]["spec"].setdefault(place.removeprefix("spec."), []).append(json.loads(rule))
    assert ask().answer == "Yes"


def test_without_policies_everybody_on_a_network_is_reached_by_both_families(town: ReachTown) -> None:
    found = town.ask("web", "db", "pg")
    assert (found.answer, found.port, found.protocol) == ("Yes", 5432, "TCP")
    assert found.sentence == "Pod shop/web reaches Instance shop/db at TCP port 5432."
    assert [(path.network, path.source, path.target) for path in found.paths] == [
        ("shop/default", "10.1.0.5", "10.1.0.6:5432"),
        ("shop/default", "fd20:1::5", "[fd20:1::6]:5432"),
    ]
    assert rules(found) == [
        ("attached", "Yes"), ("route", "Yes"), ("egress", "Yes"), ("ingress", "Yes"), ("listener", "Yes"),
    ]  # fmt: skip
    assert message(found, "egress") == "No policy selects shop/web."
    assert message(found, "listener") == "shop/db declares port 5432, and is ready."
    assert message(town.ask("web", "db", 80), "listener") == "shop/db declares no port 80, and is ready."


def test_a_policy_that_selects_lets_in_what_it_says_and_names_its_rule(town: ReachTown) -> None:
    ours, webs = {"from": [{"podSelector": DB}]}, {"from": [{"podSelector": WEB}], "ports": [{"port": "pg"}]}
    town.policy("db", {"selector": DB, "ingress": [ours, webs]})
    found = town.ask("web", "db", "pg")
    assert found.answer == "Yes"
    assert message(found, "ingress") == "NetworkPolicy shop/db ingress[1] allows it."
    found = town.ask("web", "db", 81)
    assert (found.answer, last(found).reason) == ("No", reasons.INGRESS_DENIED)
    assert last(found).message == "NetworkPolicy shop/db selects shop/db, and does not allow it."
    flips(town, found, lambda: town.ask("web", "db", 81))


def test_egress_is_limited_only_by_policies_that_speak_of_it(town: ReachTown) -> None:
    town.policy("in", {"selector": WEB})
    assert message(town.ask("web", "db"), "egress") == "No policy limits the egress of shop/web."
    town.policy("out", {"selector": WEB, "egress": [{"to": [{"podSelector": DB}], "ports": [{"port": 5432}]}]})
    assert message(town.ask("web", "db", "pg"), "egress") == "NetworkPolicy shop/out egress[0] allows it."
    found = town.ask("web", "db", 80)
    assert (found.answer, last(found).reason) == ("No", reasons.EGRESS_DENIED)
    assert last(found).message == "NetworkPolicy shop/out selects shop/web, and does not allow it."
    flips(town, found, lambda: town.ask("web", "db", 80))


def test_the_policy_of_an_interface_counts_and_is_named(town: ReachTown) -> None:
    own = {"ingress": [{"ports": [{"port": 443}]}]}
    town.pod("api", interface("10.1.0.7", policy=own), labels={"app": "api"})
    found = town.ask("web", "api", 443)
    assert message(found, "ingress") == "Instance shop/api eth0 networkPolicy.ingress[0] allows it."
    found = town.ask("web", "api", 80)
    assert last(found).message == "networkPolicy of Instance shop/api eth0 selects shop/api, and does not allow it."
    assert found.change.startswith(
        "Add to networkPolicy.ingress of eth0 in the template of Workload shop/api: {"
    )  # fmt: skip


def test_many_policies_are_named_up_to_five_and_hidden_ones_not_at_all(town: ReachTown) -> None:
    for number in range(7):
        town.policy(f"p{number}", {"selector": DB})
    found = town.ask("web", "db")
    assert last(found).message.startswith("NetworkPolicy shop/p0, NetworkPolicy shop/p1,")
    assert last(found).message.endswith("shop/p4 and 2 more select shop/db, and none allows it.")
    hidden = town.ask("web", "db", sees=lambda _: False)
    assert last(hidden).message == "a policy of shop selects shop/db, and does not allow it."
    assert "p0" not in str(hidden)
    town.policy("all", {"selector": DB, "ingress": [{}]})
    hidden = town.ask("web", "db", sees=lambda _: False)
    assert message(hidden, "ingress") == "a policy of shop allows it."


def test_pods_of_other_namespaces_are_meant_by_their_names(town: ReachTown) -> None:
    town.pod("far", interface("10.1.0.9"), namespace="bank", labels={"app": "far"})
    town.policy("bank", {"selector": {}}, namespace="bank")
    found = town.ask("web", "bank/far")
    assert found.answer == "No"
    assert '"kubernetes.io/metadata.name":"shop"' in found.change
    flips(town, found, lambda: town.ask("web", "bank/far"))


def test_a_pod_reaches_itself_its_resolver_and_its_metadata_whatever_policies_say(town: ReachTown) -> None:
    town.policy("none", {"selector": {}, "egress": []})
    for target in ("web", "10.1.0.5", "169.254.20.10", "169.254.169.254"):
        found = town.ask("web", target, 53, "udp")
        assert (found.answer, last(found).rule) == ("Yes", "always"), target


def test_instances_without_a_common_network_are_unreachable(town: ReachTown) -> None:
    town.pod("other", interface("10.2.0.9", network="shop/other"), labels={"app": "x"})
    found = town.ask("web", "other")
    assert (found.answer, last(found).rule, last(found).reason) == ("No", "route", reasons.DIFFERENT_NETWORKS)
    assert last(found).message == "On Network shop/default, 10.2.0.9 is not Instance shop/other's."
    # overlapping ranges: the address belongs to a different pod there
    town.pod("twin", interface("10.1.0.6", network="shop/other"), labels={"app": "x"})
    assert last(town.ask("web", "twin")).reason == reasons.DIFFERENT_NETWORKS


def test_no_route(town: ReachTown) -> None:
    town.pod("alone", interface("10.1.0.8", default=False), labels={"app": "x"})
    found = town.ask("alone", "192.0.2.1")
    assert (found.answer, last(found).reason) == ("No", reasons.NO_ROUTE)
    town.pod("old", interface("10.1.0.10", six=False), labels={"app": "x"})
    assert last(town.ask("old", "[2001:db8::1]")).reason == reasons.NO_ROUTE
    assert [path.target for path in town.ask("web", "old").paths] == ["10.1.0.10:80"]


def test_an_address_that_nobody_has(town: ReachTown) -> None:
    found = town.ask("web", "10.1.200.1")
    assert (found.answer, last(found).reason) == ("No", reasons.NO_SUCH_ADDRESS)
    assert last(town.ask("web", "240.0.0.7")).reason == reasons.NO_SUCH_ADDRESS
    assert town.ask("web", "10.1.0.6", 5432).answer == "Yes"


def test_ports_of_tunnels_are_not_let_out(town: ReachTown) -> None:
    for port in NODES_OWN:
        assert last(town.ask("web", "db", port, "udp")).reason == reasons.TUNNEL_PORT
    assert town.ask("web", "db", 4789).answer == "Yes"


def test_outside_is_seen_as_the_node(town: ReachTown) -> None:
    found = town.ask("web", "192.0.2.1", 443)
    assert (found.answer, found.paths[0].seen_as) == ("Yes", "198.18.0.1")
    assert found.sentence == "Pod shop/web reaches 192.0.2.1 at TCP port 443, seen as 198.18.0.1."
    town.policy("out", {"selector": WEB, "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/25"}}]}]})
    assert town.ask("web", "192.0.2.1", 443).answer == "Yes"
    found = town.ask("web", "192.0.2.200", 443)
    assert last(found).reason == reasons.EGRESS_DENIED
    flips(town, found, lambda: town.ask("web", "192.0.2.200", 443))


def test_services_lead_to_their_backends_and_paths_may_differ(town: ReachTown) -> None:
    town.pod("db2", interface("10.1.0.16"), labels={"app": "db2"})
    town.service("pg", "10.96.0.9", 5000, ("10.1.0.6", 5432), ("10.1.0.16", 5432))
    found = town.ask("web", "service/pg", "web")
    assert (found.answer, found.port) == ("Yes", 5000)
    assert [path.target for path in found.paths] == ["10.1.0.16:5432", "10.1.0.6:5432"]
    assert message(found, "service") == "Service shop/pg port 5000 leads to 10.1.0.16:5432."
    town.policy("db", {"selector": DB})
    found = town.ask("web", "10.96.0.9", 5000)
    assert [path.answer for path in found.paths] == ["Yes", "No"]
    assert found.answer == "Some"
    assert "by 1 of 2 paths: NetworkPolicy shop/db selects" in found.sentence
    assert last(town.ask("web", "service/pg", 81)).reason == reasons.NO_SUCH_ADDRESS


def test_services_without_backends_or_on_another_network(town: ReachTown) -> None:
    town.service("empty", "10.96.0.10", 80)
    found = town.ask("web", "service/empty", 80)
    assert (found.answer, last(found).rule, last(found).reason) == ("No", "service", reasons.NO_READY_ENDPOINT)
    town.service("far", "10.96.0.11", 80, ("10.9.0.1", 80), namespace="bank", network="bank/default")
    assert last(town.ask("web", "service/bank/far", 80)).reason == reasons.DIFFERENT_NETWORKS
    town.service("world", "10.96.0.12", 80, ("203.0.113.5", 8080), network="")
    found = town.ask("web", "service/world", 80)
    assert (found.answer, last(found).rule, found.paths[0].target) == ("Yes", "outside", "203.0.113.5:8080")


def test_waiting_and_unknown(town: ReachTown) -> None:
    town.pod("new", node="", labels={})
    found = town.ask("web", "pod/new")
    assert (found.answer, last(found).reason) == ("Wait", reasons.NOT_ATTACHED)
    assert found.sentence.startswith("Pod shop/web does not reach Pod shop/new at TCP port 80 yet: ")
    town.pod("foreign", labels={}, ip="10.244.0.3")
    found = town.ask("foreign", "db")
    assert (found.answer, last(found).reason) == ("Unknown", reasons.NODE_HAS_NO_DATAPATH)
    town.objects[PODS]["shop/db"]["status"].pop("hostIP")
    assert town.ask("web", "db").answer == "Wait"
    town.objects[PODS]["shop/db"]["status"]["phase"] = "Succeeded"
    assert town.ask("web", "db").answer == "No"


def test_both_directions(town: ReachTown) -> None:
    town.policy("db", {"selector": DB, "ingress": [{}], "egress": []})
    found = town.ask("web", "db", "pg", both=True)
    assert found.reverse is not None
    assert (found.answer, found.reverse.answer) == ("Yes", "No")
    assert (found.reverse.from_.name, found.reverse.to.name, found.reverse.port) == ("db", "web", 5432)


@pytest.mark.parametrize(
    ("target", "port", "protocol", "why"),
    [
        ("example.com", "443", "", "host name"),
        ("", "443", "", "no target"),
        ("a/b/c", "443", "", "no target"),
        ("db", "", "", "port: missing"),
        ("db", "70000", "", "1 to 65535"),
        ("db", "9" * 5000, "", "1 to 65535"),
        ("db", "²", "", "calls no TCP port '²'"),
        ("db", "٨٠", "", "calls no TCP port"),
        ("db", "80", "icmp", "none of TCP"),
        ("db", "http", "", "calls no TCP port 'http'; it has pg"),
        ("10.1.0.6", "http", "", "calls no TCP port"),
    ],
)
def test_bad_questions_say_what_is_wrong(town: ReachTown, target: str, port: str, protocol: str, why: str) -> None:
    with pytest.raises(BadQuestion, match=why):
        town.ask("web", target, port, protocol)


def test_missing_targets_raise(town: ReachTown) -> None:
    for target in ("nobody", "pod/nobody", "service/nobody", "externalservice/nobody"):
        with pytest.raises(NoSuchTarget):
            town.ask("web", target)


def condition(kind: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


def tunnels(town: ReachTown, **messages: str) -> None:
    """Add Nodes with their condition of tunnels; an empty message means that all are open."""
    for name, message in messages.items():
        said = condition("TunnelsReachable", "False" if message else "True", message)
        status = {"conditions": [condition("Ready", "True"), said]}
        town.add("core/nodes", {"metadata": {"name": name}, "status": status})


@pytest.mark.parametrize(
    ("n1", "n2", "closed"),
    [
        ("4789/udp to n2 is closed", "4789/udp from n1 is closed", "4789/udp from node n1 to node n2 is closed."),
        ("4789/udp from n2 is closed", "", "4789/udp from node n2 to node n1 is closed."),
        ("4789/udp to or from n2 is closed", "4789/udp to n1 is closed", "4789/udp from node n2 to node n1 is closed."),
        (
            "4789/udp to or from n2 is closed",
            "",
            "4789/udp from node n1 to node n2 and 4789/udp from node n2 to node n1 are closed.",
        ),
    ],
)
def test_a_closed_tunnel_is_the_first_verdict(town: ReachTown, n1: str, n2: str, closed: str) -> None:
    tunnels(town, n1=n1, n2=n2)
    town.policy("db", {"selector": DB})
    found = town.ask("web", "db", "pg")
    assert (found.answer, last(found).rule, last(found).reason) == ("No", "tunnel", reasons.TUNNEL_CLOSED)
    assert last(found).message == closed
    assert closed.removesuffix(".") in found.sentence
    assert found.change.startswith("Let 4789/udp from node n")


def test_tunnels_of_others_and_of_lost_nodes_say_nothing(town: ReachTown) -> None:
    tunnels(town, n1="4789/udp to n3 is closed", n2="")
    assert town.ask("web", "db", "pg").answer == "Yes"
    tunnels(town, n1="4789/udp to n2 is closed", n2="")
    town.objects["core/nodes"]["n1"]["status"]["conditions"][0]["status"] = "Unknown"
    assert town.ask("web", "db", "pg").answer == "Yes"
    tunnels(town, n1="", n2="")
    assert ("tunnel", "Yes") in rules(town.ask("web", "db", "pg"))


def test_pods_of_one_node_need_no_tunnel(town: ReachTown) -> None:
    tunnels(town, n1="4789/udp to n2 is closed")
    town.pod("near", interface("10.1.0.7"), labels={"app": "near"})
    assert town.ask("web", "near", "80").answer == "Yes"
