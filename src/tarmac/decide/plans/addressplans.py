"""Plans the public addresses of a Service or an annotated Workload: pool, addresses, gateways, pods behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tarmac.api.compute.explanations import AddressPlan, Refused
from tarmac.api.compute.names import ANNOTATION_ANYCAST, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.networking.names import DEFAULT_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim, workload_claim
from tarmac.decide.ingress.binding import Binding, PoolBook, Take, range_owner
from tarmac.decide.ingress.members import candidates
from tarmac.decide.ingress.pools import pool_findings, speakers
from tarmac.decide.ingressworld import class_owners, nodes_of, pool_book, slices_of
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.overlap import overlapped_by_older
from tarmac.decide.remedies.usualchanges import usual_change
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS
from tarmac.decide.snapshot.snapshot import NETWORKS, PODS, Objects, Snapshot
from tarmac.decide.verdict import Refusal, Verdict

Nodes = Mapping[str, NodeView]


def plan_service(snapshot: Snapshot, service: JsonObject, claim: IngressClaim, book: PoolBook) -> AddressPlan:
    """Return the plan of a Service of type LoadBalancer."""
    nodes = nodes_of(snapshot)
    behind = _behind(snapshot, service, claim)
    return _planned(snapshot, claim, book.bind(claim), nodes, behind)


def plan_anycast(snapshot: Objects, workload: Workload) -> AddressPlan | None:
    """Return the plan of a Workload's anycast addresses; None if its annotation asks for none.

    The snapshot is that after the Workload is carried out: its instances are on their nodes.
    """
    claim = workload_claim(workload, _families(snapshot, workload))
    if claim is None:
        return None
    behind = _nodes_of_pods(snapshot, claim.namespace, {LABEL_WORKLOAD_UID: workload.metadata.uid})
    verdict = pool_book(snapshot, [claim]).bind(claim)
    return _planned(snapshot, claim, verdict, nodes_of(snapshot), behind)


def wants_anycast(workload: Workload) -> bool:
    """Return True if the annotation of a Workload asks for anycast addresses."""
    return workload.metadata.annotations.get(ANNOTATION_ANYCAST) == "true"


def _families(snapshot: Snapshot, workload: Workload) -> list[IPFamily]:
    interfaces = workload.spec.template.spec.network_interfaces
    name = interfaces[0].network.name if interfaces else DEFAULT_NETWORK
    network = NETWORKS.get(snapshot, f"{workload.metadata.namespace}/{name}")
    return list(network.spec.ip_families) if network is not None else ["IPv4"]


def _planned(
    snapshot: Snapshot, claim: IngressClaim, verdict: Verdict[Binding], nodes: Nodes, behind: Counter[str]
) -> AddressPlan:
    refused = [refused_by(each) for each in verdict.refusals]
    by_city = Counter[str]()
    for node, count in behind.items():
        by_city[nodes[node].city if node in nodes else ""] += count
    endpoints = [f"{city} {count}" for city, count in sorted(by_city.items())]
    if not behind:
        reason = reasons.NO_READY_INSTANCE if claim.kind == "Workload" else reasons.NO_ENDPOINTS
        change = "Place an instance." if claim.kind == "Workload" else "Make a pod that its selector matches ready."
        refused.append(Refused(reason, f"No pod stands behind the {claim.kind}.", change))
    if verdict.value is None:
        return AddressPlan(endpoints=endpoints, refused=refused)
    pool, takes = verdict.value.pool, verdict.value.takes
    able = able_nodes(snapshot, pool, [str(each.address) for each in takes], nodes)
    serving = _serving(claim, able.value or (), behind, set(by_city))
    if able.value is None:
        refused += [refused_by(each) for each in able.refusals]
    elif behind and not serving:
        refused.append(_without_endpoint(claim))
    return AddressPlan(
        [pool.metadata.name], [_shown(claim, each) for each in takes], [each.name for each in serving], endpoints,
        refused,
    )  # fmt: skip


def able_nodes(
    snapshot: Snapshot, pool: AddressPool, addresses: Sequence[str], nodes: Nodes
) -> Verdict[tuple[NodeView, ...]]:
    """Return the nodes that could announce addresses of a pool; on a segment in order of preference."""
    peers = list(BGP_PEERS.all(snapshot))
    others = [*(range_owner(each) for each in ADDRESS_POOLS.all(snapshot)), *class_owners(snapshot)]
    ready, _ = pool_findings(pool, overlapped_by_older(range_owner(pool), others), peers, nodes)
    if not ready.holds:
        change = usual_change(ready.reason, ready.message)
        return Verdict(None, (Refusal(ready.reason, ready.message, rule="gateways", change=change),))
    if announcement(pool.spec) == "bgp":
        names = speakers(pool, peers, nodes)
        return Verdict(tuple(nodes[name] for name in sorted(names) if not nodes[name].cordoned))
    return candidates(pool, addresses[0], nodes.values())


def _serving(
    claim: IngressClaim, able: Sequence[NodeView], behind: Mapping[str, int], cities: set[str]
) -> list[NodeView]:
    """Return the nodes that would announce: with traffic policy Local, and for anycast, only those with endpoints."""
    if claim.kind == "Workload":
        return [each for each in able if each.city in cities]
    return [each for each in able if claim.policy != "Local" or behind.get(each.name)]


def _without_endpoint(claim: IngressClaim) -> Refused:
    if claim.kind == "Workload":
        message = "No city with an instance has a gateway that could announce it."
        return Refused(reasons.NOT_ANNOUNCED, message, "Choose gateways in these cities, or place instances elsewhere.")
    message = "With externalTrafficPolicy Local only nodes with an endpoint announce, and no gateway has one."
    return Refused(reasons.NO_ENDPOINTS, message, "Set externalTrafficPolicy to Cluster, or place a pod on a gateway.")


def _shown(claim: IngressClaim, take: Take) -> str:
    """Return the address, unless it depends on values that the server generates."""
    certain = take.known is not None or take.address in claim.asked.values()
    return str(take.address) if certain else f"any free IPv{take.address.version} address"


def _behind(snapshot: Snapshot, service: JsonObject, claim: IngressClaim) -> Counter[str]:
    """Count the endpoints of a Service by node: the pods of its selector, or the endpoints in its slices."""
    if selector := service["spec"].get("selector"):
        return _nodes_of_pods(snapshot, claim.namespace, selector)
    every = (end for one in slices_of(snapshot, claim.namespace, claim.name) for end in one.get("endpoints") or ())
    return Counter(each["nodeName"] for each in every if each.get("nodeName"))


def _nodes_of_pods(snapshot: Snapshot, namespace: str, selector: Mapping[str, str]) -> Counter[str]:
    """Count the pods of a selector by node. They need not be ready: a plan shows the final state."""
    return Counter(each["spec"]["nodeName"] for each in _pods(snapshot, namespace) if _matches(each, selector))


def _pods(snapshot: Snapshot, namespace: str) -> Iterator[JsonObject]:
    for each in PODS.all(snapshot, namespace):
        ended = (each.get("status") or {}).get("phase") in TERMINAL or each["metadata"].get("deletionTimestamp")
        if not ended and (each.get("spec") or {}).get("nodeName"):
            yield each


def _matches(pod: JsonObject, selector: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def refused_by(refusal: Refusal) -> Refused:
    """Return a refusal as it is shown."""
    return Refused(refusal.reason, refusal.message, refusal.change)
