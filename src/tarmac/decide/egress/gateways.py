"""The Gateway spec of one address: candidates, voters, limits, and the rules of all ExternalServices that use it.

Agents do not read other Nodes: they learn the addresses and keys of peers from Gateways. Each entry is taken from the
peer's own Node, looked up by name, never by an address that a different node could claim too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from tarmac.api.egress.forwarding import Gateway, GatewayNode, GatewayRule, GatewaySpec
from tarmac.api.egress.sourceip import AddressLimits, SourceIP, SourceIPClass
from tarmac.base.quantity import Quantity
from tarmac.decide.egress.candidates import next_voters, partners, voters
from tarmac.decide.egress.compiling import GatewayPart
from tarmac.decide.egress.views import NodeView


def rules_of(namespace: str, name: str) -> Callable[[GatewayRule], bool]:
    """Return a predicate for the rules of an ExternalService, by Forwarder name. Namespace and name contain no dot."""
    prefix = f"{namespace}.{name}."
    return lambda rule: rule.forwarder is not None and rule.forwarder.name.startswith(prefix)


def with_part(spec: GatewaySpec, mine: Callable[[GatewayRule], bool], part: GatewayPart | None) -> GatewaySpec:
    """Return the spec with one ExternalService's rules replaced; all other rules stay.

    Rules are sorted, so the order does not depend on the writer: otherwise ExternalServices that share an address would
    rewrite the object for ever.
    """
    made = part or GatewayPart()
    kept = _copied(spec)
    kept.egress_rules = sorted([*(rule for rule in spec.egress_rules if not mine(rule)), *made.egress], key=_order)
    kept.ingress_rules = sorted([*(rule for rule in spec.ingress_rules if not mine(rule)), *made.ingress], key=_order)
    return kept


def _order(rule: GatewayRule) -> tuple[str, str, str, str, int, int]:
    name = rule.forwarder.name if rule.forwarder is not None else ""
    return name, rule.protocol, rule.source_ip, rule.destination_ip, rule.target_port, rule.destination_port


def senders(spec: GatewaySpec, node: Callable[[str], NodeView | None]) -> list[GatewayNode]:
    """Return the nodes with Pods that use the address, from its rules' Forwarders. `node` finds one by its digits."""
    rules = (*spec.egress_rules, *spec.ingress_rules)
    digits = {rule.forwarder.name.rpartition(".")[2] for rule in rules if rule.forwarder is not None}
    found = [each for each in map(node, digits) if each is not None]
    return [_gateway_node(each) for each in sorted(found, key=lambda each: each.name)]


def _copied(spec: GatewaySpec) -> GatewaySpec:
    return GatewaySpec(**{name: getattr(spec, name) for name in spec.__struct_fields__})


def gateway_spec(
    known: Gateway | None,
    address: SourceIP,
    offered: SourceIPClass,
    limits: Sequence[AddressLimits | None],
    able: Sequence[NodeView],
    nodes: Iterable[NodeView],
) -> GatewaySpec:
    """Compute the Gateway's spec; its rules stay.

    If no node is able to carry the address, the previous candidates stay: an unreachable node may still be the owner.
    Voters change by one step towards the wanted set, and only after all candidates, including former ones, have
    acknowledged the last step: an isolated node keeps using the voters it knows. Deleting its Node ends the wait.
    """
    every = {node.name: node for node in nodes}
    before = known.spec if known is not None else GatewaySpec()
    current = [each.name for each in before.voters]
    wanted = [node.name for node in voters(offered.spec, able, every.values(), current)] if able else []
    settled = known is not None and bool(able) and is_acknowledged(known, every)
    chosen = next_voters(current, wanted, acknowledged=settled)
    old = {each.name: each for each in before.voters}
    made = _copied(before)
    made.gateway_ip = address.spec.address
    made.mark = address.status.id if address.status is not None else 0
    made.announce, made.subnet = offered.spec.announce, offered.spec.subnet
    made.limits = lowest([offered.spec.limits, *limits])
    pairs = partners(able)
    stay = [_gateway_node(every[each.name]) if each.name in every else each for each in before.candidates]
    made.candidates = [_gateway_node(node, pairs.get(node.name, "")) for node in able] or stay
    made.leaving = _leaving(known, {each.name for each in made.candidates}, every)
    made.voters = [_gateway_node(every[name]) if name in every else old[name] for name in chosen]
    return made


def is_acknowledged(gateway: Gateway, nodes: Iterable[str]) -> bool:
    """Return True if every existing current or leaving candidate has applied the newest generation."""
    there = set(nodes)
    asked = {each.name for each in (*gateway.spec.candidates, *gateway.spec.leaving)} & there
    return asked <= _acknowledging(gateway)


def sharing(gateway: Gateway | None, owner: str) -> str | None:
    """Return the node that synchronizes connections with the owner, confirmed by both; empty if there is none.

    None if the owner is no longer a candidate.
    """
    if gateway is None or owner not in {each.name for each in gateway.spec.candidates}:
        return None
    said = {each.name: each.synced_with for each in (gateway.status.nodes if gateway.status is not None else ())}
    partner = said.get(owner, "")
    return partner if said.get(partner) == owner else ""


def _acknowledging(gateway: Gateway) -> set[str]:
    said, newest = gateway.status.nodes if gateway.status is not None else (), gateway.metadata.generation
    return {each.name for each in said if each.applied_generation == newest}


def _leaving(known: Gateway | None, candidates: Set[str], every: Mapping[str, NodeView]) -> list[GatewayNode]:
    """Return the former candidates that have not acknowledged their removal yet, sorted by name."""
    if known is None:
        return []
    heard = {each.name for each in known.spec.leaving} & _acknowledging(known)
    were = {each.name for each in (*known.spec.candidates, *known.spec.leaving)}
    return [_gateway_node(every[name]) for name in sorted((were - candidates - heard) & every.keys())]


def _gateway_node(node: NodeView, partner: str = "") -> GatewayNode:
    key = node.facts.public_key if node.facts is not None else ""
    return GatewayNode(node.name, node.address, node.city, key, partner)


def lowest(limits: Iterable[AddressLimits | None]) -> AddressLimits | None:
    """Return the minimum of each limit; None if there are no limits."""
    said = [each for each in limits if each is not None]
    if not said:
        return None

    def least(values: Iterable[Quantity | None]) -> Quantity | None:
        return min((each for each in values if each is not None), default=None)

    return AddressLimits(
        egress_bandwidth=least(each.egress_bandwidth for each in said),
        ingress_bandwidth=least(each.ingress_bandwidth for each in said),
        connections=min((each.connections for each in said if each.connections is not None), default=None),
    )
