"""Computed reachability agrees with datapaths: 3,000 pairs of random towns, 100,000 in a soak."""

from __future__ import annotations

import gc
import time
from random import Random
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.decide.reach.paths import PathWalk
from tarmac.decide.reach.question import ReachTarget, question_of
from tarmac.decide.reach.reachability import reachability
from tarmac.decide.reach.world import ReachWorld
from tests.decide.reach.worlds import NET, NODES, PODS, ReachTown, interface
from tests.soak import SOAK

OTHER = "shop/other"
LABELS = ("a", "b", "c")
PORTS = (80, 443, 5432)
PAIRS = 300
TRIED = 10
"""Towns that are always tested; each of them has pairs that reach each other and pairs that do not."""
TOWNS = 334 if SOAK else TRIED


def random_peer(chance: Random) -> JsonObject:
    kind = chance.choice(("pods", "pods", "spaces", "both", "block"))
    pods = {"podSelector": {"matchLabels": {"app": chance.choice(LABELS)}} if chance.random() < 0.8 else {}}
    spaces = {"namespaceSelector": {"matchLabels": {"team": chance.choice(("shop", "bank"))}}}
    if kind == "block":
        block: JsonObject = {"cidr": chance.choice(("10.1.0.0/28", "10.1.0.0/16", "0.0.0.0/0", "fd20:1::/64", "::/0"))}
        if chance.random() < 0.4 and block["cidr"].startswith("10.1"):
            block["except"] = ["10.1.0.4/31"]
        return {"ipBlock": block}
    return {**(pods if kind != "spaces" else {}), **(spaces if kind != "pods" else {})}


def random_rule(chance: Random, peers: str) -> JsonObject:
    rule: JsonObject = {}
    if chance.random() < 0.8:
        rule[peers] = [random_peer(chance) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.6:
        port: JsonObject = {"port": chance.choice((80, 443, "pg"))}
        if chance.random() < 0.2:
            port = {"port": 80, "endPort": 500}
        if chance.random() < 0.2:
            port["protocol"] = "UDP"
        rule["ports"] = [port]
    return rule


def random_town(chance: Random) -> ReachTown:
    town = ReachTown()
    town.network()
    town.network(OTHER, "10.2.0.0/16", "fd20:2::/48")
    addresses: list[str] = []
    for number in range(chance.randint(4, 12)):
        own = [] if chance.random() < 0.15 else [interface(f"10.1.0.{number + 1}", policy=_own_policy(chance))]
        if chance.random() < 0.3 or not own:
            own.append(interface(f"10.2.0.{number + 1}", OTHER, name="eth1", default=not own))
        addresses += [each.addresses[0].partition("/")[0] for each in own if each.network == NET]
        namespace = chance.choice(("shop", "shop", "bank"))
        ports = [{"name": "pg", "containerPort": chance.choice(PORTS)}] if chance.random() < 0.7 else []
        labels, node = {"app": chance.choice(LABELS)}, chance.choice(list(NODES))
        town.pod(f"p{number}", *own, namespace=namespace, node=node, labels=labels, ports=ports)
    for number in range(chance.randint(0, 6)):
        spec: JsonObject = {
            "selector": {"matchLabels": {"app": chance.choice(LABELS)}} if chance.random() < 0.8 else {}
        }
        if chance.random() < 0.3:
            spec["network"] = chance.choice(("default", "other"))
        spec["ingress"] = [random_rule(chance, "from") for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.5:
            spec["egress"] = [random_rule(chance, "to") for _ in range(chance.randint(0, 3))]
        town.policy(f"r{number}", spec, chance.choice(("shop", "bank")))
    for number in range(chance.randint(0, 3)):
        backends = [(each, chance.choice(PORTS)) for each in chance.sample(addresses, min(2, len(addresses)))]
        town.service(f"s{number}", f"10.96.0.{number + 1}", 80, *backends)
    return town


def _own_policy(chance: Random) -> JsonObject | None:
    return {"ingress": [random_rule(chance, "from")]} if chance.random() < 0.2 else None


@pytest.mark.soak(minutes=0.1)
@pytest.mark.parametrize("seed", range(TOWNS))
def test_the_answer_is_what_the_fake_datapath_does(seed: int) -> None:
    chance = Random(seed)
    town = random_town(chance)
    nodes, snapshot = town.datapath(), town.snapshot()
    world = ReachWorld(snapshot)
    members = list(world.members.values())
    targets = [each.partition("/")[0] for member in members for own in member.interfaces for each in own.addresses]
    targets += [*(f"10.96.0.{number}" for number in range(1, 5)), "10.1.0.200"]
    answers = dict[bool, int]()
    for number in range(PAIRS):
        sender, target = chance.choice(members), chance.choice(targets)
        port, protocol = chance.choice(PORTS), chance.choice(("TCP", "TCP", "UDP"))
        tried = nodes[sender.node].reaches(f"{sender.namespace}/{sender.name}", target, port, protocol) is not None
        asked = world if number % 2 else ReachWorld(snapshot)  # one world with loaded objects, and a fresh one
        path = next(PathWalk(asked, lambda _: True, sender, protocol).to(target, port))
        inside = path.answer == "Yes" and path.lines[-1].rule != "outside"
        assert inside == tried, f"seed {seed}: {sender.name} to {target}:{port}/{protocol}: {path}"
        answers[tried] = answers.get(tried, 0) + 1
    assert len(answers) == 2 or seed >= TRIED, "all pairs of the town have the same answer"


def _large_town() -> ReachTown:
    town = ReachTown()
    town.network(four="10.0.0.0/8")
    for number in range(10_000):
        address = f"10.1.{number // 250}.{number % 250 + 1}"
        own = interface(address, six=False)
        town.pod(f"p{number}", own, node=f"n{number % 2 + 1}", labels={"app": f"app{number % 500}"})
    for number in range(1_000):
        rule: dict[str, Any] = {"from": [{"podSelector": {"matchLabels": {"app": f"app{(number + 1) % 500}"}}}]}
        town.policy(f"r{number}", {"selector": {"matchLabels": {"app": f"app{number % 500}"}}, "ingress": [rule]})
    return town


def test_ten_thousand_pods_and_a_thousand_policies_are_answered_soon() -> None:
    snapshot = _large_town().snapshot()
    question = question_of("pod/p1000", "80", "", "shop")
    begun = time.process_time()  # of this process alone: other processes share the machine
    found = reachability(snapshot, ReachTarget("pod", "shop", "p1001"), question, lambda _: True)
    seconds = time.process_time() - begun
    assert found.answer == "Yes"
    assert found.paths[0].lines[-2].message == "NetworkPolicy shop/r0 ingress[0] allows it."
    assert seconds < 1.5, f"{seconds:.2f} s of processor time"


def test_an_answered_question_leaves_no_garbage() -> None:
    """A collection would block the server's loop: objects of a question must be freed with the answer."""
    town = random_town(Random(1))
    town.policy("all", {"selector": {}, "ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]})
    snapshot, sender = town.snapshot(), ReachTarget("pod", *next(iter(town.objects[PODS])).split("/"))
    for target in ("10.1.0.1", "10.1.0.2", "10.96.0.1"):
        reachability(snapshot, sender, question_of(target, "80", "", "shop"), lambda _: True)  # fills caches
        gc.collect()
        reachability(snapshot, sender, question_of(target, "80", "", "shop"), lambda _: True)
        assert gc.collect() == 0, target
