"""The nodes of a public address's lease: candidates, voters, and former candidates that may not know it yet.

Candidates do not depend on endpoints, which come and go: a candidate whose rules lead to no endpoint does not campaign.
So with the traffic policy Local only nodes with an endpoint own the address, and its voters stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.ingress.publicaddress import AnnouncingNode, PublicAddress
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.ingress.selecting import is_gateway
from tarmac.decide.pooled.candidates import MAX_VIRTUAL, able_to_encrypt, linked_gateways
from tarmac.decide.pooled.members import Members, next_members, resigned, voters
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.pooled.ranges import digest
from tarmac.decide.verdict import Verdict


def owner_of(address: PublicAddress) -> AnnouncingNode | None:
    """Return the owner of an address as reported by its present and former candidates; of several, the latest."""
    spec = address.spec
    able = {each.name for each in (*spec.candidates, *spec.leaving)}
    nodes = address.status.nodes if address.status is not None else ()
    owners = (each for each in nodes if each.announcing and each.name in able)
    return max(owners, key=lambda each: each.since or "", default=None)


def candidates(
    pool: AddressPool,
    address: str,
    nodes: Iterable[NodeView],
    *,
    owner: str = "",
    load: Mapping[str, int] | None = None,
) -> Verdict[tuple[NodeView, ...]]:
    """Return the nodes that may own an address of a segment, in order of preference.

    A cordoned owner stays while no other node can take over.
    """
    nodes, virtual = list(nodes), announcement(pool.spec) == "virtualMAC"
    gateways = [node for node in nodes if node.ready and is_gateway(pool.spec, node.labels)]
    most = MAX_VIRTUAL if virtual else None
    verdict = linked_gateways(pool.spec, address, gateways, lambda _: most, owner=owner, load=load)
    if verdict.value is None:
        return Verdict(None, verdict.refusals)
    able = able_to_encrypt(verdict.value.able, nodes)
    return Verdict(tuple(sorted(able, key=lambda node: -digest(address, node.name))))


def address_members(
    address: PublicAddress, pool: AddressPool, nodes: Sequence[NodeView], load: Mapping[str, int] | None = None
) -> Members:
    """Return the next members of an address's lease.

    They stay while it rests. An address that is announced by BGP has no owner.
    """
    spec = address.spec
    before = Members(spec.candidates, spec.voters, spec.leaving)
    if not holders(address) or phase_of(address) in RESTING:
        return before
    acknowledging = _acknowledging(address)
    if announcement(pool.spec) == "bgp":
        return resigned(before, acknowledging, nodes)
    owner = owner_of(address)
    able = candidates(pool, spec.address, nodes, owner=owner.name if owner else "", load=load).value or ()
    return next_members(before, acknowledging, able, nodes, lambda current: _voters(pool, able, nodes, current))


def _voters(
    pool: AddressPool, able: Sequence[NodeView], nodes: Sequence[NodeView], current: Collection[str]
) -> Sequence[NodeView]:
    places = pool.spec.locations
    return voters(lambda node: not places or node.location in places, able, nodes, current)


def _acknowledging(address: PublicAddress) -> set[str]:
    reports, newest = address.status.nodes if address.status is not None else (), address.metadata.generation
    return {each.name for each in reports if each.applied_generation == newest}
