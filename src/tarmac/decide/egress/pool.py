"""Selection of addresses for claims: one class at a time, its claims oldest first.

A `Pool` holds the addresses of a class and their holders, updated after each decision, so one pass decides many claims.
A decision is only a proposal: the address is taken by creating or updating the SourceIP of its name, in which one
writer succeeds. The loser of that race decides again without the address.

An address already held is kept. A claim with `spec.address` gets that address or none. Otherwise it gets a SourceIP
that a manager created beforehand, else a free address, searched upward from a hash of the claim's uid. A claim gets all
of its families or none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from tarmac.api.egress.names import Address, object_name
from tarmac.api.egress.sourceip import LastClaim, SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide import reasons
from tarmac.decide.egress.claims import RESTING, holders, phase_of
from tarmac.decide.egress.ranges import Ranges, digest, family_of
from tarmac.decide.verdict import Refusal, Verdict


@dataclass(frozen=True, slots=True)
class Take:
    """One address for a claim. `known` is its SourceIP if that exists; `held`: the claim holds it already."""

    address: Address
    known: SourceIP | None = None
    held: bool = False

    @property
    def name(self) -> str:
        """Name of the SourceIP."""
        return object_name(self.address)


Takes = tuple[Take, ...]


def _is_meant_for(source_ip: SourceIP, claim: SourceIPClaim) -> bool:
    """Return True if a manager has reserved an address for a claim of this name."""
    own, first = claim.metadata, source_ip.spec.claim_ref
    return first is not None and (first.namespace, first.name, first.uid) == (own.namespace, own.name, "")


class Pool:
    """A class and its addresses. `source_ips` are those of the class; `interfaces` the gateways' own addresses."""

    def __init__(
        self,
        offered: SourceIPClass,
        source_ips: Iterable[SourceIP],
        interfaces: Collection[Address] = (),
        uid_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`uid_of` returns the uid of a namespace; empty if it does not exist."""
        self.offered, self.ranges, self._uid_of = offered, Ranges(offered.spec, interfaces), uid_of
        self._known: dict[Address, SourceIP] = {}
        self._gone: set[Address] = set()  # lost to a concurrent writer
        self._by_namespace: dict[str, set[Address]] = {}
        self._by_uid: dict[str, set[Address]] = {}
        self._bound: set[Address] = set()
        self._spare: set[Address] = set()  # created beforehand: unclaimed, or reserved for a future claim
        self._full: set[int] = set()  # families without a free address: searched once, not for each waiting claim
        for each in source_ips:
            self.put(each)

    def put(self, source_ip: SourceIP) -> None:
        """Insert or update an address of the class."""
        address = ip_address(source_ip.spec.address)
        self._known[address] = source_ip
        self._spare.discard(address)
        if phase_of(source_ip) in RESTING:
            return
        if source_ip.spec.claim_ref is None or not source_ip.spec.claim_ref.uid:
            self._spare.add(address)
            return
        self._bound.add(address)
        for each in holders(source_ip):
            self._by_namespace.setdefault(each.namespace, set()).add(address)
            self._by_uid.setdefault(each.uid, set()).add(address)

    def lose(self, address: Address) -> None:
        """Exclude an address that was lost to a concurrent writer."""
        self._gone.add(address)

    def held_by(self, claim: SourceIPClaim) -> list[SourceIP]:
        """Return the SourceIPs that a claim holds."""
        return [self._known[address] for address in self._by_uid.get(claim.metadata.uid, ())]

    def bind(self, claim: SourceIPClaim) -> Verdict[Takes]:
        """Return the claim's addresses in the order of its families. A refusal of one refuses all."""
        takes: list[Take] = []
        for family in claim.spec.families:
            found = self._of_family(claim, int(family[-1]))
            if isinstance(found, Refusal):
                return Verdict(None, (found,))
            takes.append(found)
        return Verdict(tuple(takes))

    def _of_family(self, claim: SourceIPClaim, family: int) -> Take | Refusal:
        mine = [each for each in self._by_uid.get(claim.metadata.uid, ()) if each.version == family]
        if mine:
            said = claim.status.source_ip_names if claim.status is not None else []
            address = min(mine, key=lambda each: (object_name(each) not in said, int(each)))
            return Take(address, self._known[address], held=True)
        asked = ip_address(claim.spec.address) if claim.spec.address else None
        if asked is not None and asked.version == family:
            found = self._asked_for(asked, claim)
        else:
            found = self._any(claim, family)
        return found if isinstance(found, Refusal) else self._within_quota(found, claim) or found

    def _asked_for(self, address: Address, claim: SourceIPClaim) -> Take | Refusal:
        name, known = self.offered.metadata.name, self._known.get(address)
        if not self.ranges.hold(address):
            message = f"{address} is in no range of SourceIPClass {name}."
            return Refusal(reasons.ADDRESS_NOT_IN_CLASS, message, change="Ask for one that is, or for any.")
        if self.ranges.reserve(address):
            message = f"{address} is never handed out: it is the first or last of its segment, its router or a gateway."
            return Refusal(reasons.ADDRESS_RESERVED, message, change="Ask for another, or for any.")
        if known is None and address not in self._gone:
            return Take(address)
        return self._known_one(address, known, claim)

    def _known_one(self, address: Address, known: SourceIP | None, claim: SourceIPClaim) -> Take | Refusal:
        if known is not None and (_is_meant_for(known, claim) or self._is_available(known)):
            return Take(address, known)
        if known is not None and phase_of(known) in RESTING:
            return self._resting(address, known, claim)
        if known is not None and known.spec.claim_ref is not None and self.offered.spec.sharing == "Class":
            return Take(address, known)
        held = known.spec.claim_ref if known is not None else None
        whose = "by a claim of this namespace" if held and held.namespace == claim.metadata.namespace else "by others"
        return Refusal(reasons.ADDRESS_IN_USE, f"{address} is held {whose}.", change="Ask for another, or for any.")

    def _resting(self, address: Address, known: SourceIP, claim: SourceIPClaim) -> Take | Refusal:
        """Give a resting address back to its last namespace; a retained one only after a manager released it.

        Outsiders trust the address under the name of the namespace that had it. Another tenant may have made a
        namespace of that name since, so the uids must match; an address without a recorded uid rests to the end.
        """
        status = known.status
        last, until = (status.last_claim, status.quarantined_until) if status is not None else (None, None)
        kept = known.spec.claim_ref is not None and known.spec.reclaim_policy == "Retain"
        if last is not None and not kept and self._is_of(last, claim.metadata.namespace):
            return Take(address, known)
        when = f" until {until}" if until else ""
        message = f"{address} rests{when}: external servers may still trust it as its previous holder."
        return Refusal(reasons.ADDRESS_QUARANTINED, message, change="Wait, or ask for another.")

    def _is_of(self, last: LastClaim, namespace: str) -> bool:
        return (
            last.namespace == namespace and bool(last.namespace_uid) and last.namespace_uid == self._uid_of(namespace)
        )

    def _any(self, claim: SourceIPClaim, family: int) -> Take | Refusal:
        name, place = self.offered.metadata.name, claim.spec.location
        made = [
            address
            for address in self._spare - self._gone
            if address.version == family
            and (not place or self._known[address].spec.location in ("", place))
            and (_is_meant_for(self._known[address], claim) or self._is_available(self._known[address]))
        ]
        if made:
            first = min(made, key=lambda address: (not _is_meant_for(self._known[address], claim), int(address)))
            return Take(first, self._known[first])
        if self.offered.spec.auto_assign is False:
            message = f"SourceIPClass {name} gives addresses only to claims that ask for one by number."
            return Refusal(reasons.POOL_EXHAUSTED, message, change="Set spec.address to the one that was agreed on.")
        for address in self.ranges.search(family, digest(claim.metadata.uid)) if family not in self._full else ():
            if address not in self._known and address not in self._gone:
                return Take(address)
        self._full.add(family)
        message = f"SourceIPClass {name} has no free IPv{family} address."
        return Refusal(reasons.POOL_EXHAUSTED, message, change=f"Add a range to SourceIPClass {name}.")

    def _is_available(self, known: SourceIP) -> bool:
        going = known.metadata.deletion_timestamp is not None
        return known.spec.claim_ref is None and phase_of(known) in ("", "Available") and not going

    def _within_quota(self, take: Take, claim: SourceIPClaim) -> Refusal | None:
        quota, namespace = self.offered.spec.quota, claim.metadata.namespace
        if quota is None:
            return None
        name, mine = self.offered.metadata.name, self._by_namespace.get(namespace, set())
        most = next((each.addresses for each in quota.overrides if each.namespace == namespace), quota.per_namespace)
        held = {family_of(each) for each in self._by_uid.get(claim.metadata.uid, ())}
        new = len(set(claim.spec.families) - held)  # a claim gets all families or none, so all of them must fit
        if most is not None and take.address not in mine and len(mine) + new > most:
            message = (
                f"Namespace {namespace} has {len(mine)} of the {most} addresses that SourceIPClass {name} gives it."
            )
            return Refusal(reasons.QUOTA_EXCEEDED, message, change="Delete a claim, or ask for a higher quota.")
        if quota.total is not None and take.address not in self._bound and len(self._bound) + new > quota.total:
            message = f"{len(self._bound)} of the {quota.total} addresses of SourceIPClass {name} are in use."
            return Refusal(reasons.QUOTA_EXCEEDED, message, change=f"Raise the total quota of SourceIPClass {name}.")
        return None
