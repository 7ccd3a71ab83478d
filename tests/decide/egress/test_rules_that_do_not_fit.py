"""Rules beyond the size of a Forwarder or Gateway are left out and reported; existing ones stay."""

from __future__ import annotations

import msgspec

from tarmac.api.decode.extent import MAX_VALUES, count_values
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import (
    MAX_FORWARDER_RULES,
    Forwarder,
    ForwarderSpec,
    Gateway,
    GatewayRule,
    GatewaySpec,
    PeerReference,
)
from tarmac.api.egress.names import NAMESPACE, forwarder_name
from tarmac.api.shared import ObjectMeta
from tarmac.decide.egress.compiling import Compiled
from tarmac.decide.egress.fitting import MAX_SPEC_VALUES, compile_fitting
from tarmac.decide.egress.gateways import rules_of, with_part
from tarmac.decide.egress.sources import Resolution, resolve
from tests.decide.egress.making import service
from tests.decide.egress.worlds import Plain, node, web

ADDRESS = "192.0.2.5"
PORTS = [{"name": f"p{n}", "port": n} for n in range(1, 65)]


def values(spec: ForwarderSpec | GatewaySpec) -> int:
    return count_values(msgspec.json.encode(spec, enc_hook=str))


def gateway(rules: int, *own: str) -> Gateway:
    """Return a Gateway with rules of another ExternalService, and one rule for each of our Forwarders."""
    names = [*(f"team.other.{n:08x}" for n in range(rules)), *own]
    made = [
        GatewayRule("TCP", f"240.0.{n >> 8}.{n & 255}", destination_ip="203.0.113.8", destination_port=1,
                    forwarder=PeerReference(name, NAMESPACE), forwarder_ip="198.18.0.1")
        for n, name in enumerate(names)
    ]  # fmt: skip
    return Gateway(ObjectMeta(ADDRESS), spec=GatewaySpec(egress_rules=made))


def full(room: int, *own: str) -> Gateway:
    """Return a Gateway with room for this many more values."""
    rules = 1000
    while values(gateway(rules, *own).spec) < MAX_SPEC_VALUES - room:
        rules += 5
    return gateway(rules, *own)


def on_nodes(count: int, each: int = 1) -> Plain:
    """Return a Service with this many pods on each of this many nodes."""
    pods = [f"p{n:03}" for n in range(count * each)]
    world = Plain(services={"team/web": web(*pods)})
    world.nodes |= {f"dfw-{n}": node(f"dfw-{n}", n % 250, labels={}) for n in range(2, count)}
    for number, name in enumerate(pods):
        world.put_pod(name, number + 2, on=f"dfw-{number // each}")
    return world


def fitted(
    wanted: ExternalService, world: Plain, present: Gateway | None = None, known: dict[str, Forwarder] | None = None
) -> tuple[Resolution, Compiled]:
    found = resolve(wanted, world)
    return found, compile_fitting(found, "169.254.192.9", known or {}, set(), lambda _: present)


def test_a_forwarder_takes_as_many_pods_as_fit_and_the_source_names_the_numbers() -> None:
    found, made = fitted(service(ports=PORTS), on_nodes(1, each=60))
    spec = made.forwarders["dfw-0"]
    assert values(spec) <= MAX_SPEC_VALUES
    assert values(spec) > MAX_SPEC_VALUES * 0.9
    pods = {rule.pod for rule in spec.egress_rules}
    assert pods == {pod.uid for pod in found.sources[0].pods}
    assert len(spec.egress_rules) == 64 * len(pods)
    (remark,) = found.sources[0].remarks
    assert remark.reason == "TooManyRules"
    assert remark.message.startswith("Node dfw-0: 60 Pods need rules of ")
    assert f"the limit is {MAX_SPEC_VALUES}" in remark.message


def test_pods_that_have_rules_keep_them_when_more_pods_come() -> None:
    _, first = fitted(service(ports=PORTS), on_nodes(1, each=60))
    has = {rule.pod for rule in first.forwarders["dfw-0"].egress_rules}
    reduced = first.forwarders["dfw-0"]
    reduced.egress_rules = [rule for rule in reduced.egress_rules if rule.pod != min(has)]
    known = {"dfw-0": Forwarder(ObjectMeta("f"), spec=reduced)}
    _, again = fitted(service(ports=PORTS), on_nodes(1, each=60), known=known)
    assert has - {min(has)} <= {rule.pod for rule in again.forwarders["dfw-0"].egress_rules}


def test_a_full_gateway_takes_as_many_nodes_as_fit_and_the_source_names_the_numbers() -> None:
    present = full(room=300)
    found, made = fitted(service(), on_nodes(60), present)
    held = values(with_part(present.spec, rules_of("team", "db"), made.gateways[ADDRESS]))
    assert held <= MAX_SPEC_VALUES < MAX_VALUES
    assert 10 < len(made.forwarders) < 60
    assert {pod.node.name for pod in found.sources[0].pods} == set(made.forwarders)
    (remark,) = found.sources[0].remarks
    assert remark.reason == "TooManyRules"
    assert remark.message.startswith(f"Address {ADDRESS}: its Gateway would have ")


def test_nodes_that_have_rules_keep_them_when_more_nodes_come() -> None:
    mine = [forwarder_name("team", "db", f"dfw-{n}") for n in range(50, 60)]
    _, made = fitted(service(), on_nodes(60), full(300, *mine))
    assert {f"dfw-{n}" for n in range(50, 60)} <= set(made.forwarders)
    assert len(made.forwarders) < 60


def test_a_gateway_overfilled_by_other_services_takes_nothing_more_and_loses_nothing() -> None:
    present = gateway(3000)
    found, made = fitted(service(), on_nodes(3), present)
    assert made.forwarders == {}
    assert (found.sources[0].pods, found.sources[0].remarks[0].reason) == ([], "TooManyRules")
    after = with_part(present.spec, rules_of("team", "db"), made.gateways.get(ADDRESS))
    assert len(after.egress_rules) == 3000


def test_the_limit_of_admission_is_what_a_forwarder_holds_of_the_smallest_rules() -> None:
    _, made = fitted(service(), on_nodes(1))
    (rule,) = made.forwarders["dfw-0"].egress_rules
    spec = made.forwarders["dfw-0"]
    spec.egress_rules = [rule] * MAX_FORWARDER_RULES
    assert values(spec) <= MAX_SPEC_VALUES
    spec.egress_rules = [rule] * (MAX_FORWARDER_RULES + 1)
    assert values(spec) > MAX_SPEC_VALUES
