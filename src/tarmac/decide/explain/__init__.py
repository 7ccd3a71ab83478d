"""Explains the state of an object: one sentence, the verdicts behind it by city and node, and the smallest change.

Explanations are recomputed from a snapshot by the deciding functions themselves, not recorded when they decided. So
they describe the present, need no log, and the same code answers on our own server (as the subresource `why`) and on
lists fetched from any other server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tarmac.api.compute.explanations import Explanation
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.decide.explain.deployments import explain_deployment
from tarmac.decide.explain.externalservices import explain_external_service
from tarmac.decide.explain.instances import explain_instance
from tarmac.decide.explain.nodes import explain_node
from tarmac.decide.explain.podcontrollers import explainer_of
from tarmac.decide.explain.pods import explain_pod
from tarmac.decide.explain.publicaddresses import explain_address_pool, explain_bgp_peer, explain_public_address
from tarmac.decide.explain.services import explain_service
from tarmac.decide.explain.sourceips import explain_source_ip, explain_source_ip_claim, explain_source_ip_class
from tarmac.decide.explain.workloads import explain_workload
from tarmac.decide.snapshot.egressobjects import (
    EXTERNAL,
    EXTERNAL_SERVICES,
    SERVICES,
    SOURCE_IP_CLAIMS,
    SOURCE_IP_CLASSES,
    SOURCE_IPS,
)
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS, INGRESS, PUBLIC_ADDRESSES
from tarmac.decide.snapshot.snapshot import (
    DEPLOYMENTS,
    EVERYTHING,
    INSTANCES,
    LEASES,
    NODES,
    POD_CONTROLLERS,
    PODS,
    WORKLOADS,
    ResourceSource,
    Snapshot,
)

EXPLAINERS: Mapping[str, Callable[[Snapshot, str], Explanation | None]] = {
    WORKLOADS.resource: explain_workload,
    DEPLOYMENTS.resource: explain_deployment,
    INSTANCES.resource: explain_instance,
    PODS.resource: explain_pod,
    NODES.resource: explain_node,
    EXTERNAL_SERVICES.resource: explain_external_service,
    SOURCE_IP_CLAIMS.resource: explain_source_ip_claim,
    SOURCE_IPS.resource: explain_source_ip,
    SOURCE_IP_CLASSES.resource: explain_source_ip_class,
    SERVICES.resource: explain_service,
    PUBLIC_ADDRESSES.resource: explain_public_address,
    ADDRESS_POOLS.resource: explain_address_pool,
    BGP_PEERS.resource: explain_bgp_peer,
    **{source.resource: explainer_of(kind) for kind, source in POD_CONTROLLERS.items()},
}
"""The function that explains an object, given its key, by resource."""


_OWNERS = (*POD_CONTROLLERS.values(), LEASES)
_OF_OWNERS = frozenset({PODS.resource, *(source.resource for source in POD_CONTROLLERS.values())})
_OF_INGRESS = frozenset(each.resource for each in (SERVICES, PUBLIC_ADDRESSES, ADDRESS_POOLS, BGP_PEERS))


def looked_at(resource: str, usual: tuple[ResourceSource[Any], ...] = EVERYTHING) -> tuple[ResourceSource[Any], ...]:
    """Return the resources that a snapshot must hold to explain or plan an object of this resource."""
    if resource.startswith(f"{SUBMARINER}/"):
        return EXTERNAL
    if resource in _OF_INGRESS:
        return INGRESS
    return (*usual, *_OWNERS) if resource in _OF_OWNERS else usual


__all__ = ["EXPLAINERS", "looked_at"]
