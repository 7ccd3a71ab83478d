"""Announcements of public addresses, from the reports of nodes, and what Services and Workloads show of them.

A node writes its own entry of a PublicAddress. Its word counts only while the node is Ready and its pool chooses it as
a gateway: a node that is lost cannot withdraw its entry, and one that is no gateway may not announce.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tarmac.api.compute.workload import AnycastCity
from tarmac.api.declare import Time
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import AnnouncingNode, PublicAddress
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim
from tarmac.decide.ingress.binding import phase_of
from tarmac.decide.ingress.selecting import is_gateway
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.rollup.conditions import Finding
from tarmac.decide.verdict import Refusal

_MAX_NAMED = 5


class Report(NamedTuple):
    """An entry of a node whose word counts."""

    node: NodeView
    entry: AnnouncingNode


def reports(address: PublicAddress, pool: AddressPool | None, nodes: Mapping[str, NodeView]) -> list[Report]:
    """Return the entries of the address's gateways that are Ready."""
    if pool is None or address.status is None:
        return []
    found = ((nodes.get(entry.name), entry) for entry in address.status.nodes)
    return [Report(node, entry) for node, entry in found if node is not None and node.ready and _chooses(pool, node)]


def gateways(pool: AddressPool, nodes: Iterable[NodeView]) -> list[NodeView]:
    """Return the Ready nodes that may announce the addresses of a pool."""
    return [node for node in nodes if node.ready and _chooses(pool, node)]


def _chooses(pool: AddressPool, node: NodeView) -> bool:
    return is_gateway(pool.spec, node.labels)


def address_finding(found: Sequence[Report]) -> Finding:
    """Return the condition `Announced` of a PublicAddress."""
    places = sorted({each.node.location or each.node.name for each in found if each.entry.announcing})
    if places:
        failing = untrusted(found)
        doubt = f"; the own connections of {_some(failing)} fail" if failing else ""
        return Finding("Announced", "True", reasons.ANNOUNCED, f"It is announced from {_some(places)}{doubt}.")
    return Finding("Announced", "False", *_unannounced(found))


def untrusted(found: Sequence[Report]) -> list[str]:
    """Return the gateways whose own connections to the address fail, whether they announce it or not."""
    return sorted(each.node.name for each in found if each.entry.reason == reasons.SELF_TEST_FAILED)


def has_conflict(found: Sequence[Report]) -> bool:
    """Return True if a gateway found another host with the address, and none announces it."""
    observed = {each.entry.reason for each in found}
    return reasons.ADDRESS_CONFLICT in observed and not any(each.entry.announcing for each in found)


def service_finding(
    claim: IngressClaim,
    refusals: Sequence[Refusal],
    held: Mapping[str, Sequence[Report]],
    *,
    endpoints: int,
    gateway_count: int,
) -> Finding:
    """Return the condition `LoadBalancerReady` of a Service.

    `held` are the reports about each of its addresses; `gateway_count` the Ready gateways of their pool.
    """
    if not held or (refusals and claim.requires_all):
        return _refused("LoadBalancerReady", refusals)
    if all(any(each.entry.announcing for each in found) for found in held.values()):
        return Finding("LoadBalancerReady", "True", reasons.ANNOUNCED, f"{_some(sorted(held))} is announced.")
    if not endpoints:
        message = f"{_some(sorted(held))} is held; the Service has no ready endpoint."
        return Finding("LoadBalancerReady", "False", reasons.NO_ENDPOINTS, message)
    if not gateway_count:
        message = f"{_some(sorted(held))} is held; no Ready node may announce it."
        return Finding("LoadBalancerReady", "False", reasons.NO_GATEWAY, message)
    quiet = [found for found in held.values() if not any(each.entry.announcing for each in found)]
    return Finding("LoadBalancerReady", "False", *_unannounced(quiet[0]))


def ingress_status(addresses: Iterable[PublicAddress], shown: Iterable[str], acknowledged: Iterable[str]) -> list[str]:
    """Return the addresses that a Service shows: those that a gateway has acknowledged, or that it showed before.

    An address leaves only when the Service does not hold it any more.
    """
    known = {*shown, *acknowledged}
    held = [each.spec.address for each in addresses if phase_of(each) not in RESTING]
    return sorted((each for each in held if each in known), key=lambda each: (":" in each, each))


def anycast_cities(
    instances: Mapping[str, int],
    found: Iterable[Report],
    before: Iterable[AnycastCity],
    now: Time,
) -> list[AnycastCity]:
    """Return the state of each city: its ready instances, and whether it announces."""
    old = {each.city: each for each in before}
    by_city: dict[str, list[Report]] = {}
    for each in found:
        by_city.setdefault(each.node.city, []).append(each)
    cities: list[AnycastCity] = []
    for city in sorted({*(name for name, count in instances.items() if count), *by_city} - {""}):
        mine, count = by_city.get(city, []), instances.get(city, 0)
        announced = any(each.entry.announcing for each in mine)
        reason = reasons.ANNOUNCED if announced else _city_reason(mine, count)
        if not announced and not count and city not in old:
            continue  # a gateway of a city that never had an instance is no news
        last = old.get(city)
        since = last.since if last is not None and last.announced == announced and last.since else now
        cities.append(AnycastCity(city, announced, count, since, reason))
    return cities


def anycast_finding(
    refusals: Sequence[Refusal], addresses: Sequence[PublicAddress], cities: Sequence[AnycastCity], *, peers: bool
) -> Finding:
    """Return the condition `AnycastReady` of a Workload. `peers`: a BGPPeer has an established session."""
    if not addresses:
        return _refused("AnycastReady", refusals)
    able = [each for each in cities if each.instances]
    announcing = [each.city for each in able if each.announced]
    if announcing and len(announcing) == len(able):
        return Finding("AnycastReady", "True", reasons.ANNOUNCED, f"{_some(announcing)} announces the address.")
    if announcing:
        silent = [each.city for each in able if not each.announced]
        message = f"{_some(announcing)} announces the address; {_some(silent)} does not."
        return Finding("AnycastReady", "True", reasons.PARTLY_ANNOUNCED, message)
    if not able:
        return Finding("AnycastReady", "False", reasons.NO_READY_INSTANCE, "No city has a ready instance.")
    if not peers:
        message = "No BGPPeer of the pool has an established session with a gateway."
        return Finding("AnycastReady", "False", reasons.NO_PEER, message)
    worst = max((each.reason for each in able), key=_priority)
    return Finding("AnycastReady", "False", worst, f"None of {_some([each.city for each in able])} announces it.")


def _city_reason(mine: Sequence[Report], count: int) -> str:
    if not count:
        return reasons.NO_READY_INSTANCE
    return _unannounced(mine)[0]


def _unannounced(found: Sequence[Report]) -> tuple[str, str]:
    """Return the most telling reason of the nodes, with the nodes that have it. Unknown reasons are the nodes' own."""
    known = [each.entry.reason for each in found if each.entry.reason in reasons.CATALOGUE]
    if not known:
        return reasons.NOT_ANNOUNCED, "No gateway announces it yet."
    worst = max(known, key=_priority)
    names = sorted(each.node.name for each in found if each.entry.reason == worst)
    return worst, f"{reasons.reason(worst).text} ({_some(names)})"


def _priority(reason: str) -> int:
    return reasons.priority(reason) if reason in reasons.CATALOGUE else 0


def _refused(kind: str, refusals: Sequence[Refusal]) -> Finding:
    worst = refusals[0] if refusals else Refusal(reasons.CLAIM_NOT_BOUND, "It has no address yet.")
    return Finding(kind, "False", worst.reason, f"{worst.message} {worst.change}".strip())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more
