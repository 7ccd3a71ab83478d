"""Relations between claims, classes and addresses: allowed namespaces, holders of an address, users of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.sourceip import ClaimReference, SourceIP, SourceIPClaim, SourceIPClassSpec
from tarmac.decide.pooled.permissions import allows_namespace
from tarmac.decide.pooled.pool import RESTING


def allows(offered: SourceIPClassSpec, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return True if a namespace may use the class. A class without `allowedNamespaces` allows none."""
    return allows_namespace(offered.allowed_namespaces, namespace, labels)


def holders(source_ip: SourceIP) -> list[ClaimReference]:
    """Return the claims that hold an address: `claimRef`, then those that share it."""
    first = source_ip.spec.claim_ref
    return [] if first is None else [first, *source_ip.spec.shared_by]


def phase_of(source_ip: SourceIP) -> str:
    """Return the phase in the status; empty before the first reconcile."""
    return (source_ip.status.phase if source_ip.status is not None else None) or ""


def is_held_by(source_ip: SourceIP, claim: SourceIPClaim) -> bool:
    """Return True if this claim (by uid) holds the address; a released or quarantined address has no holder."""
    return phase_of(source_ip) not in RESTING and any(each.uid == claim.metadata.uid for each in holders(source_ip))


def addresses_named(service: ExternalService) -> set[str]:
    """Return the addresses that an ExternalService names itself, in canonical form."""
    return {str(ip_address(source.source_ip)) for source in service.spec.sources if source.source_ip}


def names_claim(service: ExternalService, claim: SourceIPClaim) -> bool:
    """Return True if an ExternalService of the same namespace names a claim, or an address that it holds."""
    named = {source.source_ip_claim.name for source in service.spec.sources if source.source_ip_claim is not None}
    held = claim.status.addresses if claim.status is not None else []
    return claim.metadata.name in named or not addresses_named(service).isdisjoint(held)
