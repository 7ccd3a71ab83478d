"""Resolves one source of an ExternalService without its pods: its Service and grant, its address and class.

The address must belong to a bound claim of the ExternalService's own namespace, and the SourceIP must confirm it: the
claim's status alone is not trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from tarmac.api.egress.externalservice import ExternalService, Source
from tarmac.api.egress.names import ANNOTATION_ALLOWED_FROM, Address, object_name
from tarmac.api.egress.sourceip import SourceIP, SourceIPClass
from tarmac.decide import reasons
from tarmac.decide.egress.claims import is_held_by
from tarmac.decide.egress.views import EgressLookup, EndpointView, PortView, ServiceView, age
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.verdict import Refusal


@dataclass(frozen=True, slots=True)
class SourcePod:
    """A pod that may use the ExternalService, with its endpoint in the source's Service."""

    uid: str
    name: str
    node: NodeView
    network: str
    address: str
    endpoint: EndpointView


@dataclass(slots=True)
class ResolvedSource:
    """One source. `refusals` disable it; `remarks` concern some of its pods or ports."""

    source: Source
    key: str  # namespace/name of its Service
    service: ServiceView | None = None
    source_ip: SourceIP | None = None
    offered: SourceIPClass | None = None
    pods: list[SourcePod] = field(default_factory=list[SourcePod])
    open_ports: tuple[PortView, ...] = ()
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    remarks: list[Refusal] = field(default_factory=list[Refusal])

    @property
    def works(self) -> bool:
        """True if rules are compiled for it."""
        return not self.refusals

    @property
    def address(self) -> str:
        """The address seen by the target; empty while the source has none."""
        return self.source_ip.spec.address if self.source_ip is not None else ""


def grants(allowed_from: str, namespace: str, name: str) -> bool:
    """Return True if a Service's annotation allows an ExternalService of another namespace."""
    words = {each.strip() for each in allowed_from.split(",")}
    return bool(words & {"*", namespace, f"{namespace}/{name}"})


def granted_service(service: ExternalService, key: str, world: EgressLookup) -> ServiceView | None:
    """Return a Service that the ExternalService may use; None if it does not exist or does not grant its use.

    The grant is read first: endpoints of a Service that grants nothing must not cost time that a caller can measure.
    """
    own, allowed_from = service.metadata, world.allowed_from(key)
    if allowed_from is None:
        return None
    if key.partition("/")[0] != own.namespace and not grants(allowed_from, own.namespace, own.name):
        return None
    return world.service(key)


def admitted(service: ExternalService, source: Source, target: Address, world: EgressLookup) -> ResolvedSource:
    """Return the source without its pods."""
    own = service.metadata
    key = f"{source.service.namespace or own.namespace}/{source.service.name}"
    made = ResolvedSource(source, key, granted_service(service, key, world))
    made.refusals += _refused_service(service, made)
    made.refusals += _find_address(service, made, target, world)
    if source.location and not world.has_location(source.location):
        made.refusals.append(_no_location(source.location))
    if made.offered is not None and made.source_ip is not None:
        made.refusals += _refused_by_class(service, made, target, world)
    return made


def _no_location(name: str) -> Refusal:
    return Refusal(
        reasons.LOCATION_NOT_FOUND, f"Location {name} does not exist.", rule="pods", change=f"Create Location {name}."
    )


def _refused_service(service: ExternalService, made: ResolvedSource) -> Iterator[Refusal]:
    """Yield why there is no Service. In another namespace, a missing Service and a missing grant look the same."""
    own = service.metadata.namespace
    if made.service is not None:
        return
    if made.key.partition("/")[0] == own:
        message = f"Service {made.key} does not exist."
        yield Refusal(reasons.SOURCE_SERVICE_NOT_FOUND, message, made.key, "service", f"Create Service {made.key}.")
    else:
        message = f"Service {made.key} does not exist, or does not allow ExternalServices of {own}."
        change = f"Annotate Service {made.key} with {ANNOTATION_ALLOWED_FROM}: {own}."
        yield Refusal(reasons.NOT_GRANTED, message, made.key, "grant", change)


def _find_address(
    service: ExternalService, made: ResolvedSource, target: Address, world: EgressLookup
) -> Iterator[Refusal]:
    """Store the SourceIP of a bound claim of the own namespace in `made`; yield why there is none."""
    namespace, source = service.metadata.namespace, made.source
    if source.source_ip_claim is not None:
        key = f"{namespace}/{source.source_ip_claim.name}"
        claim = world.claim(key)
        if claim is None:
            message = f"SourceIPClaim {key} does not exist."
            yield Refusal(reasons.CLAIM_NOT_FOUND, message, key, "claim", f"Create SourceIPClaim {key}.")
            return
    else:
        claim = world.claim_holding(namespace, source.source_ip)
        if claim is None:
            message = f"No bound SourceIPClaim of {namespace} holds {source.source_ip}."
            change = f"Create a SourceIPClaim in {namespace} with spec.address {source.source_ip}."
            yield Refusal(reasons.ADDRESS_NOT_CLAIMED, message, source.source_ip, "claim", change)
            return
    name, status = claim.metadata.name, claim.status
    if status is None or status.phase != "Bound":
        lost = status is not None and status.phase == "Lost"
        reason = reasons.ADDRESS_LOST if lost else reasons.CLAIM_NOT_BOUND
        message = f"SourceIPClaim {namespace}/{name} holds no address{' any more' if lost else ' yet'}."
        yield Refusal(reason, message, name, "claim")
        return
    address = next((each for each in map(ip_address, status.addresses) if each.version == target.version), None)
    if address is None:
        message = f"SourceIPClaim {namespace}/{name} has no IPv{target.version} address, which the target is."
        yield Refusal(
            reasons.FAMILY_MISMATCH, message, name, "claim", f"Claim one with families [IPv{target.version}]."
        )
        return
    found = world.source_ip(object_name(address))
    if found is None or not is_held_by(found, claim):  # the claim's status alone is not trusted
        yield Refusal(reasons.ADDRESS_LOST, f"SourceIP {address} is not held by the claim.", name, "claim")
        return
    if not world.authorized(claim.spec.class_name, namespace):
        message = f"SourceIPClass {claim.spec.class_name} does not allow namespace {namespace}."
        yield Refusal(reasons.NOT_AUTHORIZED, message, name, "claim", "Ask a manager to allow the namespace.")
        return
    made.source_ip, made.offered = found, world.address_class(claim.spec.class_name)
    if made.offered is None:
        yield Refusal(reasons.CLASS_NOT_FOUND, f"SourceIPClass {claim.spec.class_name} does not exist.", name, "claim")


def _refused_by_class(
    service: ExternalService, made: ResolvedSource, target: Address, world: EgressLookup
) -> Iterator[Refusal]:
    assert made.offered is not None, "it has an address"
    assert made.source_ip is not None, "it has an address"
    spec, name = made.offered.spec, made.offered.metadata.name
    allowed = [ip_network(each) for each in spec.allowed_targets]
    if allowed and not any(each.version == target.version and target in each for each in allowed):
        message = f"SourceIPClass {name} does not allow the target {target}."
        yield Refusal(reasons.TARGET_NOT_ALLOWED, message, rule="target", change="Use an address of another class.")
    if made.source.inbound and not lets_in(made):
        change = "Leave `inbound` out, or use an address of a class that lets targets in."
        yield Refusal(reasons.INBOUND_DENIED, f"SourceIPClass {name} lets no target in.", rule="inbound", change=change)
    users = world.users(made.source_ip.metadata.name)
    if spec.sharing == "Exclusive" and users and users[0].metadata.uid != service.metadata.uid:
        oldest = users[0].metadata
        own = oldest.namespace == service.metadata.namespace
        whose = f"ExternalService {oldest.namespace}/{oldest.name}" if own else "an ExternalService elsewhere"
        message = f"{made.address} serves {whose} alone."
        yield Refusal(reasons.ADDRESS_IN_USE, message, rule="claim", change="Claim another address.")
    yield from _refused_location(service, made, users, world)


def _refused_location(
    service: ExternalService, made: ResolvedSource, users: Sequence[ExternalService], world: EgressLookup
) -> Iterator[Refusal]:
    assert made.offered is not None, "it has an address"
    wish = service.spec.gateway.location if service.spec.gateway is not None else ""
    if not wish:
        return
    if not world.has_location(wish):
        yield _no_location(wish)
    elif made.offered.spec.locations and all(each.name != wish for each in made.offered.spec.locations):
        message = f"Addresses of SourceIPClass {made.offered.metadata.name} are not routable at {wish}."
        yield Refusal(reasons.LOCATION_NOT_IN_CLASS, message, wish, "gateway", "Choose a Location of the class.")
    elif (chosen := carried_at(made.source_ip, users)) not in ("", wish):
        message = f"{made.address} is carried at {chosen}, which an older ExternalService or its claim has chosen."
        yield Refusal(reasons.LOCATION_MISMATCH, message, wish, "gateway", f"Choose {chosen}, or another address.")


def carried_at(source_ip: SourceIP | None, users: Sequence[ExternalService]) -> str:
    """Return the Location of an address: its own, else the choice of the oldest user that makes one; empty: any."""
    if source_ip is not None and source_ip.spec.location:
        return source_ip.spec.location
    wishes = (each.spec.gateway.location for each in sorted(users, key=age) if each.spec.gateway is not None)
    return next((wish for wish in wishes if wish), "")


def lets_in(made: ResolvedSource) -> bool:
    inbound = made.offered.spec.inbound if made.offered is not None else None
    return inbound is not None and inbound.policy == "FromTarget"
