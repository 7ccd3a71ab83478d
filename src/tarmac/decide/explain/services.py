"""Explains a Service of type LoadBalancer: its address, its endpoints by city, its gateways, and who announces it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.egress.views import NodeView
from tarmac.decide.explain.answer import explanation, finding_line, refusal_line, yes
from tarmac.decide.ingress.addressclaims import IngressClaim, service_claim
from tarmac.decide.ingress.announcing import address_finding, reports, untrusted
from tarmac.decide.ingress.members import candidates, owner_of
from tarmac.decide.ingress.targets import ingress_endpoints, usable
from tarmac.decide.ingressworld import nodes_of, pool_book, slices_of
from tarmac.decide.snapshot.egressobjects import SERVICES
from tarmac.decide.snapshot.snapshot import Snapshot
from tarmac.decide.verdict import Refusal

_LOOK: Final = "Run tarmac ingress check, and let NetworkPolicies of the pods admit the nodes."


def explain_service(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a Service; None when it does not exist."""
    service = SERVICES.get(snapshot, key)
    if service is None:
        return None
    subject = Subject("v1", "Service", service["metadata"]["namespace"], service["metadata"]["name"])
    claim = service_claim(service)
    if claim is None:
        return explanation(subject, "asks for no public address", [])
    verdict = pool_book(snapshot).bind(claim)
    pool = verdict.value.pool if verdict.value is not None else None
    takes = verdict.value.takes if verdict.value is not None else ()
    held = [take.known for take in takes if take.held and take.known is not None]
    nodes = nodes_of(snapshot)
    lines = [refusal_line(each if each.rule else replace(each, rule="pool")) for each in verdict.refusals]
    lines += [_unbound(str(take.address)) for take in takes if not take.held]
    for each in held if pool is not None else ():
        lines += address_lines(each, pool, nodes)  # type: ignore[arg-type]
    lines += _endpoint_lines(snapshot, claim, nodes)
    lines += _range_lines(service)
    names = " and ".join(each.spec.address for each in held)
    return explanation(subject, f"holds {names}" if names else "holds no public address", lines)


def _unbound(address: str) -> ExplanationLine:
    return refusal_line(
        Refusal(reasons.CLAIM_NOT_BOUND, f"{address} is free for it: it is about to be bound.", rule="address")
    )


def address_lines(
    address: PublicAddress, pool: AddressPool, nodes: Mapping[str, NodeView]
) -> Iterator[ExplanationLine]:
    """Yield lines about the address, the nodes that may announce it, and those that do."""
    value, name = address.spec.address, pool.metadata.name
    yield yes(reasons.ADDRESS_BOUND, f"{value} of AddressPool {name} is held", "address")
    if announcement(pool.spec) != "bgp":
        owner = owner_of(address)
        able = candidates(pool, value, nodes.values(), owner=owner.name if owner is not None else "")
        yield from (refusal_line(replace(each, rule="gateways")) for each in able.refusals)
        if able.value:
            listed = ", ".join(sorted(node.name for node in able.value))
            yield yes(reasons.ADDRESS_BOUND, f"{listed} may own {value}", "gateways")
    found_reports = reports(address, pool, nodes)
    yield finding_line(address_finding(found_reports))
    for name in untrusted(found_reports):
        message = f"{name} does not reach {value} itself; it announces it only while no other gateway does better."
        yield refusal_line(Refusal(reasons.SELF_TEST_FAILED, message, rule="self-test", change=_LOOK), node=name)
    for each in found_reports:
        if each.entry.announcing:
            via = f" by {each.entry.via}" if each.entry.via else ""
            since = f" since {each.entry.since}" if each.entry.since else ""
            message = f"{each.node.name} announces {value}{via}{since}"
            yield yes(reasons.ANNOUNCED, message, "announced", each.node.city, each.node.name)


def _endpoint_lines(
    snapshot: Snapshot, claim: IngressClaim, nodes: Mapping[str, NodeView]
) -> Iterator[ExplanationLine]:
    """Yield the number of usable endpoints by city."""
    mine = slices_of(snapshot, claim.namespace, claim.name)

    def city_of(name: str) -> str:
        return nodes[name].city if name in nodes else ""

    counts = Counter(each.city for each in usable(ingress_endpoints(mine, city_of)))
    for city in sorted(counts):
        yield yes(reasons.ADDRESS_BOUND, f"{_counted(counts[city])} ready", "endpoints", city)
    if not counts:
        change = "Make a pod that its selector matches ready."
        yield refusal_line(Refusal(reasons.NO_ENDPOINTS, "It has no ready endpoint.", rule="endpoints", change=change))


def _range_lines(service: JsonObject) -> Iterator[ExplanationLine]:
    ranges: Sequence[str] = service["spec"].get("loadBalancerSourceRanges") or ()
    if ranges:
        yield yes(reasons.ADDRESS_BOUND, f"Only clients in {', '.join(sorted(ranges))} are let in", "ranges")


def _counted(count: int) -> str:
    return f"{count} endpoint{'' if count == 1 else 's'}"
