"""The Gateway spec of one address: its members, limits, and the rules of all ExternalServices that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tarmac.api.egress.forwarding import Gateway, GatewayNode, GatewayRule, GatewaySpec
from tarmac.api.egress.sourceip import AddressLimits, SourceIP, SourceIPClass
from tarmac.base.quantity import Quantity
from tarmac.decide.egress.candidates import partners, voters
from tarmac.decide.egress.compiling import GatewayPart
from tarmac.decide.pooled.members import Members, gateway_node, next_members
from tarmac.decide.pooled.nodeview import NodeView


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
    return [gateway_node(each) for each in sorted(found, key=lambda each: each.name)]


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
    """Compute the Gateway's spec; its rules stay. Its members follow `next_members`."""
    every = list(nodes)
    before = known.spec if known is not None else GatewaySpec()
    made = _copied(before)
    made.gateway_ip = address.spec.address
    made.mark = address.status.id if address.status is not None else 0
    made.announce, made.subnet = offered.spec.announce, offered.spec.subnet
    made.limits = lowest([offered.spec.limits, *limits])
    chosen = next_members(
        _members(before),
        _acknowledging(known),
        able,
        every,
        lambda current: voters(offered.spec, able, every, current),
        partners(able),
    )
    made.candidates, made.voters, made.leaving = map(list, chosen)
    return made


def _members(spec: GatewaySpec) -> Members:
    return Members(spec.candidates, spec.voters, spec.leaving)


def sharing(gateway: Gateway | None, owner: str) -> str | None:
    """Return the node that synchronizes connections with the owner, confirmed by both; empty if there is none.

    None if the owner is no longer a candidate.
    """
    if gateway is None or owner not in {each.name for each in gateway.spec.candidates}:
        return None
    partners = {each.name: each.synced_with for each in (gateway.status.nodes if gateway.status is not None else ())}
    partner = partners.get(owner, "")
    return partner if partners.get(partner) == owner else ""


def _acknowledging(gateway: Gateway | None) -> set[str]:
    if gateway is None:
        return set()
    reports, newest = gateway.status.nodes if gateway.status is not None else (), gateway.metadata.generation
    return {each.name for each in reports if each.applied_generation == newest}


def lowest(limits: Iterable[AddressLimits | None]) -> AddressLimits | None:
    """Return the minimum of each limit; None if there are no limits."""
    given = [each for each in limits if each is not None]
    if not given:
        return None

    def least(values: Iterable[Quantity | None]) -> Quantity | None:
        return min((each for each in values if each is not None), default=None)

    return AddressLimits(
        egress_bandwidth=least(each.egress_bandwidth for each in given),
        ingress_bandwidth=least(each.ingress_bandwidth for each in given),
        connections=min((each.connections for each in given if each.connections is not None), default=None),
    )
