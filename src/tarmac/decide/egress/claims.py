"""What claims and addresses say of each other: who may use a class, who holds an address, who names a claim."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from tarmac.api.declare import encode
from tarmac.api.shared import LabelSelector as DeclaredSelector
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.sourceip import ClaimReference, SourceIP, SourceIPClaim, SourceIPClassSpec
from tarmac.base.selectors import LabelSelector

RESTING = ("Released", "Quarantined")


def selects(selector: DeclaredSelector, labels: Mapping[str, str]) -> bool:
    """Whether a selector chooses these labels. One that cannot be read chooses nothing."""
    try:
        return LabelSelector.from_object(encode(selector)).matches(labels)
    except ValueError:
        return False


def allows(offered: SourceIPClassSpec, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether the class is for a namespace. Nobody is named: nobody."""
    allowed = offered.allowed_namespaces
    if allowed is None:
        return False
    return namespace in allowed.names or (allowed.selector is not None and selects(allowed.selector, labels))


def holders(source_ip: SourceIP) -> list[ClaimReference]:
    """The claims that hold an address, the first of them first."""
    first = source_ip.spec.claim_ref
    return [] if first is None else [first, *source_ip.spec.shared_by]


def phase_of(source_ip: SourceIP) -> str:
    """What its status says; empty while nobody has looked at it."""
    return (source_ip.status.phase if source_ip.status is not None else None) or ""


def is_held_by(source_ip: SourceIP, claim: SourceIPClaim) -> bool:
    """Whether an address is this very claim's; one that was released is nobody's."""
    return phase_of(source_ip) not in RESTING and any(each.uid == claim.metadata.uid for each in holders(source_ip))


def addresses_named(service: ExternalService) -> set[str]:
    """The addresses that an ExternalService names itself, as they are written in one way."""
    return {str(ip_address(source.source_ip)) for source in service.spec.sources if source.source_ip}


def names_claim(service: ExternalService, claim: SourceIPClaim) -> bool:
    """Whether an ExternalService of the same namespace names a claim, or an address that it holds."""
    named = {source.source_ip_claim.name for source in service.spec.sources if source.source_ip_claim is not None}
    held = claim.status.addresses if claim.status is not None else []
    return claim.metadata.name in named or not addresses_named(service).isdisjoint(held)
