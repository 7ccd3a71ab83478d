"""Selection of addresses for SourceIPClaims: the SourceIPs of one class, in the terms that all pools share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from ipaddress import ip_address

from tarmac.api.egress.names import Address
from tarmac.api.egress.sourceip import ClaimReference, LastClaim, SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide.egress.claims import holders, phase_of
from tarmac.decide.pooled.pool import AddressHolder, AddressWish, HeldAddress, HeldAddresses, PooledTake, PoolTerms
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.verdict import Verdict

_KIND = "SourceIPClaim"

Take = PooledTake[SourceIP]
"""One address for a claim. `known` is its SourceIP if that exists; `held`: the claim holds it already."""

Takes = tuple[Take, ...]


class SourceIPPool:
    """A class and its addresses. `source_ips` are those of the class; `interfaces` the gateways' own addresses."""

    def __init__(
        self,
        offered: SourceIPClass,
        source_ips: Iterable[SourceIP],
        interfaces: Collection[Address] = (),
        uid_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`uid_of` returns the uid of a namespace; empty if it does not exist."""
        self.offered, self.ranges = offered, Ranges(offered.spec, interfaces)
        shares = offered.spec.sharing == "Class"
        terms: PoolTerms[SourceIP] = PoolTerms(
            f"SourceIPClass {offered.metadata.name}",
            self.ranges,
            lambda _known, _wish: shares,
            offered.spec.quota,
            offered.spec.auto_assign is not False,
            "Set spec.address to the one that was agreed on.",
            "Delete a claim, or ask for a higher quota.",
            uid_of,
        )
        self._addresses = HeldAddresses(terms, map(_held, source_ips))

    def put(self, source_ip: SourceIP) -> None:
        """Insert or update an address of the class."""
        self._addresses.put(_held(source_ip))

    def lose(self, address: Address) -> None:
        """Exclude an address that was lost to a concurrent writer."""
        self._addresses.lose(address)

    def held_by(self, claim: SourceIPClaim) -> list[SourceIP]:
        """Return the SourceIPs that a claim holds."""
        return self._addresses.held_by(claim.metadata.uid)

    def bind(self, claim: SourceIPClaim) -> Verdict[Takes]:
        """Return the claim's addresses in the order of its families. A refusal of one refuses all."""
        return self._addresses.bind(_wish(claim))


def _held(source_ip: SourceIP) -> HeldAddress[SourceIP]:
    spec, status = source_ip.spec, source_ip.status
    last = status.last_claim if status is not None else None
    return HeldAddress(
        ip_address(spec.address),
        source_ip,
        tuple(map(_holder, holders(source_ip))),
        phase_of(source_ip),
        retained=spec.reclaim_policy == "Retain",
        going=source_ip.metadata.deletion_timestamp is not None,
        last=_holder(last) if last is not None else None,
        until=(status.quarantined_until if status is not None else None) or "",
        location=spec.location,
    )


def _holder(reference: ClaimReference | LastClaim) -> AddressHolder:
    return AddressHolder(_KIND, reference.namespace, reference.name, reference.uid, reference.namespace_uid)


def _wish(claim: SourceIPClaim) -> AddressWish:
    own, requested = claim.metadata, ip_address(claim.spec.address) if claim.spec.address else None
    return AddressWish(
        _KIND,
        own.namespace,
        own.name,
        own.uid,
        tuple(claim.spec.families),
        {requested.version: requested} if requested is not None else {},
        claim.spec.location,
        tuple(claim.status.source_ip_names) if claim.status is not None else (),
    )
