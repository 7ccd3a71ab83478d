"""Plans Services of type LoadBalancer, AddressPools, PublicAddresses and BGPPeers before they exist.

Services of the same file take their addresses first, in its order. Which of several free addresses a Service gets
depends on its uid, which only the server generates: such an address is not predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.compute.explanations import Refused
from tarmac.api.declare import decode, encode
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.names import API_VERSION
from tarmac.api.ingress.plans import IngressPlan
from tarmac.api.ingress.publicaddress import HolderReference, PublicAddress, PublicAddressSpec
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim, service_claim
from tarmac.decide.ingress.binding import PoolBook, Take, holders
from tarmac.decide.ingress.pools import peer_finding, pool_summary
from tarmac.decide.ingress.selecting import has_session, is_announced_to
from tarmac.decide.ingressworld import nodes_of, pool_book
from tarmac.decide.plans.addressplans import able_nodes, plan_service
from tarmac.decide.plans.batch import carried_out, read_workloads
from tarmac.decide.plans.others import as_planned, laid_over, namespace_of, resource_of, stored_form, with_object
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.remedies.usualchanges import usual_change
from tarmac.decide.snapshot.egressobjects import SERVICES
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.decide.snapshot.snapshot import Objects


def plan_ingress(
    snapshot: Objects, resource: str, obj: JsonObject, others: Iterable[JsonObject], catalog: Catalog
) -> IngressPlan:
    """Return the plan of a manifest in its stored form, as if the other objects of its file existed.

    Beside a Service, objects of other namespaces count only if they exist: the client's right to create them is not
    checked. Raises BadRequest, Invalid.
    """
    namespace = obj["metadata"].get("namespace") or ""
    counted = [each for each in others if not namespace or namespace_of(each) in ("", namespace)]
    laid = laid_over(snapshot, counted, catalog, namespace)
    laid = carried_out(laid, read_workloads(laid, counted, catalog, namespace))
    planned = as_planned(laid, resource, obj)
    laid = with_object(laid, resource, planned)
    beside = [] if resource != SERVICES.resource else _services(counted, catalog, laid, namespace)
    return _PLANS[resource](laid, planned, beside)


def _services(others: list[JsonObject], catalog: Catalog, laid: Objects, namespace: str) -> list[JsonObject]:
    """Return the other Services of the file, in its order."""
    found: list[JsonObject] = []
    for each in others:
        resource = resource_of(catalog, each)
        if resource is not None and resource.bucket == SERVICES.resource:
            service = stored_form(resource, each)
            service["metadata"].setdefault("namespace", namespace)
            found.append(as_planned(laid, SERVICES.resource, service))
    return found


def _plan_service(snapshot: Objects, obj: JsonObject, beside: list[JsonObject]) -> IngressPlan:
    claim, book = service_claim(obj), pool_book(snapshot)
    if claim is None:
        return IngressPlan()
    for each in beside:
        _take(book, service_claim(each))
    found = plan_service(snapshot, obj, claim, book)
    return IngressPlan(found.pools, found.addresses, found.gateways, found.endpoints, found.refused)


def _take(book: PoolBook, claim: IngressClaim | None) -> None:
    """Bind a claim, so that the next one finds its addresses taken."""
    verdict = book.bind(claim) if claim is not None else None
    if claim is None or verdict is None or verdict.value is None:
        return
    for take in verdict.value.takes:
        if not take.held:
            book.put(_held(take, claim, verdict.value.pool.metadata.name))


def _held(take: Take, claim: IngressClaim, pool: str) -> PublicAddress:
    reference = HolderReference(claim.namespace, claim.kind, claim.name, claim.uid)
    spec = PublicAddressSpec(str(take.address), pool, reference)
    if take.known is not None and holders(take.known) and holders(take.known)[0].uid:
        spec = msgspec.structs.replace(take.known.spec, shared_by=[*take.known.spec.shared_by, reference])
    metadata = {"name": take.name, "uid": f"planned {take.name}"}
    made = {"apiVersion": API_VERSION, "kind": "PublicAddress", "metadata": metadata, "spec": encode(spec)}
    return decode(PublicAddress, {**made, "status": {"phase": "Bound"}})


def _plan_pool(snapshot: Objects, obj: JsonObject, _: list[JsonObject]) -> IngressPlan:
    """Plan a pool: its gateways, its free addresses, and the Services that wait for one of its addresses."""
    pool, nodes, book = decode(AddressPool, obj), nodes_of(snapshot), pool_book(snapshot)
    name = pool.metadata.name
    mine = [each for each in PUBLIC_ADDRESSES.all(snapshot) if each.spec.pool_name == name]
    first = pool.spec.ranges[0]
    able = able_nodes(snapshot, pool, [first.start or first.cidr.partition("/")[0]], nodes)
    refused = [Refused(each.reason, each.message, each.change) for each in able.refusals]
    allowed = pool.spec.allowed_namespaces
    if allowed is None or not (allowed.names or allowed.selector):
        refused.append(Refused(reasons.NOT_AUTHORIZED, "No namespace may use it.", "Set spec.allowedNamespaces."))
    served = list[str]()
    for claim in sorted(filter(None, map(service_claim, SERVICES.all(snapshot))), key=lambda one: one.created):
        verdict = book.bind(claim)
        if verdict.value is not None and verdict.value.pool.metadata.name == name:
            served.append(f"{claim.kind} {claim.namespace}/{claim.name}")
            _take(book, claim)
    free = pool_summary(pool, Ranges(pool.spec), mine).available
    gateways = [each.name for each in able.value or ()]
    return IngressPlan([name], gateways=gateways, refused=refused, available=free, holders=served)


def _plan_address(snapshot: Objects, obj: JsonObject, _: list[JsonObject]) -> IngressPlan:
    """Plan a PublicAddress that a manager writes: for whom it is, and which nodes could announce it."""
    address, refused = decode(PublicAddress, obj), list[Refused]()
    spec, pool = address.spec, ADDRESS_POOLS.get(snapshot, address.spec.pool_name)
    for_whom = [f"{each.kind} {each.namespace}/{each.name}" if each.name else f"namespace {each.namespace}"
                for each in holders(address)]  # fmt: skip
    if pool is None:
        message = f"AddressPool {spec.pool_name} does not exist."
        refused.append(Refused(reasons.POOL_NOT_FOUND, message, "Create it, or name another."))
        return IngressPlan([], [spec.address], refused=refused, holders=for_whom)
    able = able_nodes(snapshot, pool, [spec.address], nodes_of(snapshot))
    refused += [Refused(each.reason, each.message, each.change) for each in able.refusals]
    gateways = [each.name for each in able.value or ()]
    return IngressPlan([pool.metadata.name], [spec.address], gateways, refused=refused, holders=for_whom)


def _plan_peer(snapshot: Objects, obj: JsonObject, _: list[JsonObject]) -> IngressPlan:
    """Plan a BGPPeer: the nodes that would have a session, and the pools whose addresses are announced to it."""
    peer, nodes = decode(BGPPeer, obj), nodes_of(snapshot)
    finding, refused = peer_finding(peer, nodes), list[Refused]()
    if finding.reason in (reasons.NO_GATEWAY, reasons.SPEAKER_MISSING):
        refused.append(Refused(finding.reason, finding.message, usual_change(finding.reason, finding.message)))
    pools = {each.metadata.name: each for each in ADDRESS_POOLS.all(snapshot)}
    for missing in sorted({*peer.spec.pools} - pools.keys()):
        message = f"AddressPool {missing} does not exist."
        refused.append(Refused(reasons.POOL_NOT_FOUND, message, "Create it, or remove it from spec.pools."))
    told = sorted(name for name, each in pools.items() if is_announced_to(name, each.spec, peer.spec))
    if not told:
        message = "No AddressPool with announce bgp is announced to it."
        refused.append(Refused(reasons.NO_POOL, message, "Create a pool with announce bgp, or name it in spec.pools."))
    sessions = sorted(each.name for each in nodes.values() if each.ready and has_session(peer.spec, each.labels))
    return IngressPlan(told, gateways=sessions, refused=refused)


_PLANS: Final[Mapping[str, Callable[[Objects, JsonObject, list[JsonObject]], IngressPlan]]] = {
    SERVICES.resource: _plan_service,
    ADDRESS_POOLS.resource: _plan_pool,
    PUBLIC_ADDRESSES.resource: _plan_address,
    BGP_PEERS.resource: _plan_peer,
}
