"""Selection of addresses for claims on one class or pool, in the order in which the claims are asked about.

A `HeldAddresses` holds the addresses of a class or pool and their holders, updated after each decision, so one pass
decides many claims. A decision is only a proposal: the address is taken by creating or updating the object of its name,
in which one writer succeeds. The loser of that race decides again without the address.

An address already held is kept. A claim that asks for an address gets that one or none. Otherwise it gets one that a
manager created beforehand, else a free one, searched upward from a hash of the claim's uid. A claim gets all of its
families or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tarmac.api.egress.names import Address, object_name
from tarmac.api.egress.sourceip import ClassQuota
from tarmac.decide import reasons
from tarmac.decide.pooled.ranges import Ranges, digest, family_of
from tarmac.decide.verdict import Refusal, Verdict

T = TypeVar("T")
RESTING = ("Released", "Quarantined")


@dataclass(frozen=True, slots=True)
class AddressHolder:
    """A holder of an address. Without a uid it is a reservation; without kind and name, one for a whole namespace."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    namespace_uid: str = ""


@dataclass(frozen=True, slots=True)
class HeldAddress(Generic[T]):
    """An address that has an object (`source`). `retained`: after its release a manager frees it."""

    address: Address
    source: T
    holders: tuple[AddressHolder, ...] = ()
    phase: str = ""
    retained: bool = False
    going: bool = False  # being deleted
    last: AddressHolder | None = None
    until: str = ""  # end of the rest
    location: str = ""


@dataclass(frozen=True, slots=True)
class AddressWish:
    """A claim: for which families, and by family for which address. `named`: objects that its status names."""

    kind: str
    namespace: str
    name: str
    uid: str
    families: tuple[str, ...]
    asked: Mapping[int, Address] = field(default_factory=dict[int, Address])
    location: str = ""
    named: tuple[str, ...] = ()
    requires_all: bool = True


@dataclass(frozen=True, slots=True)
class PooledTake(Generic[T]):
    """One address for a claim. `known` is its object if that exists; `held`: the claim holds it already."""

    address: Address
    known: T | None = None
    held: bool = False

    @property
    def name(self) -> str:
        """Name of the object."""
        return object_name(self.address)


Share = Callable[[HeldAddress[T], AddressWish], Refusal | bool]
"""Returns True if the claim may share the address with its holders; False or a refusal if not."""


@dataclass(frozen=True, slots=True)
class PoolTerms(Generic[T]):
    """The terms of a class or pool. `title`, `by_number` and `less` are for messages."""

    title: str  # "SourceIPClass partner"
    ranges: Ranges
    share: Share[T]
    quota: ClassQuota | None = None
    auto_assign: bool = True
    by_number: str = ""
    less: str = ""
    uid_of: Callable[[str], str] = lambda _: ""  # the uid of a namespace; empty if it does not exist


class HeldAddresses(Generic[T]):
    """A class or pool and its addresses."""

    def __init__(self, terms: PoolTerms[T], known: Iterable[HeldAddress[T]]) -> None:
        self.terms = terms
        self._known: dict[Address, HeldAddress[T]] = {}
        self._gone: set[Address] = set()  # lost to a concurrent writer
        self._by_namespace: dict[str, set[Address]] = {}
        self._by_uid: dict[str, set[Address]] = {}
        self._bound: set[Address] = set()
        self._spare: set[Address] = set()  # created beforehand: unclaimed, or reserved for a future claim
        self._full: set[int] = set()  # families without a free address: searched once, not for each waiting claim
        for each in known:
            self.put(each)

    def put(self, held: HeldAddress[T]) -> None:
        """Insert or update an address."""
        address = held.address
        self._known[address] = held
        self._spare.discard(address)
        if held.phase in RESTING:
            return
        if not held.holders or not held.holders[0].uid:
            self._spare.add(address)
            return
        self._bound.add(address)
        for each in held.holders:
            self._by_namespace.setdefault(each.namespace, set()).add(address)
            self._by_uid.setdefault(each.uid, set()).add(address)

    def lose(self, address: Address) -> None:
        """Exclude an address that was lost to a concurrent writer."""
        self._gone.add(address)

    def held_by(self, uid: str) -> list[T]:
        """Return the objects of the addresses that a claim holds."""
        return [self._known[address].source for address in self._by_uid.get(uid, ())]

    def bind(self, wish: AddressWish) -> Verdict[tuple[PooledTake[T], ...]]:
        """Return the claim's addresses in the order of its families.

        A refusal of one refuses all, unless the claim does not require all: then one address suffices.
        """
        takes: list[PooledTake[T]] = []
        refusals: list[Refusal] = []
        for family in wish.families:
            found = self._of_family(wish, int(family[-1]))
            if not isinstance(found, Refusal):
                takes.append(found)
            elif wish.requires_all:
                return Verdict(None, (found,))
            else:
                refusals.append(found)
        return Verdict(tuple(takes) if takes else None, tuple(refusals))

    def _of_family(self, wish: AddressWish, family: int) -> PooledTake[T] | Refusal:
        mine = [each for each in self._by_uid.get(wish.uid, ()) if each.version == family]
        if mine:
            address = min(mine, key=lambda each: (object_name(each) not in wish.named, int(each)))
            return PooledTake(address, self._known[address].source, held=True)
        asked = wish.asked.get(family)
        found = self._asked_for(asked, wish) if asked is not None else self._any(wish, family)
        return found if isinstance(found, Refusal) else self._within_quota(found, wish) or found

    def _asked_for(self, address: Address, wish: AddressWish) -> PooledTake[T] | Refusal:
        known = self._known.get(address)
        if not self.terms.ranges.hold(address):
            message = f"{address} is in no range of {self.terms.title}."
            return Refusal(reasons.ADDRESS_NOT_IN_CLASS, message, change="Ask for one that is, or for any.")
        if self.terms.ranges.reserve(address):
            message = f"{address} is never handed out: it is the first or last of its segment, its router or a gateway."
            return Refusal(reasons.ADDRESS_RESERVED, message, change="Ask for another, or for any.")
        if known is None and address not in self._gone:
            return PooledTake(address)
        return self._known_one(address, known, wish)

    def _known_one(self, address: Address, known: HeldAddress[T] | None, wish: AddressWish) -> PooledTake[T] | Refusal:
        if known is not None and (_is_meant_for(known, wish) or _is_available(known)):
            return PooledTake(address, known.source)
        if known is not None and known.phase in RESTING:
            return self._resting(known, wish)
        shared = self.terms.share(known, wish) if known is not None and known.holders else False
        if isinstance(shared, Refusal):
            return shared
        if known is not None and shared:
            return PooledTake(address, known.source)
        held = known.holders[0] if known is not None and known.holders else None
        whose = "by a claim of this namespace" if held and held.namespace == wish.namespace else "by others"
        return Refusal(reasons.ADDRESS_IN_USE, f"{address} is held {whose}.", change="Ask for another, or for any.")

    def _resting(self, known: HeldAddress[T], wish: AddressWish) -> PooledTake[T] | Refusal:
        """Give a resting address back to its last namespace; a retained one only after a manager released it.

        Outsiders trust the address under the name of the namespace that had it. Another tenant may have made a
        namespace of that name since, so the uids must match; an address without a recorded uid rests to the end.
        """
        kept = bool(known.holders) and known.retained
        if known.last is not None and not kept and self._is_of(known.last, wish.namespace):
            return PooledTake(known.address, known.source)
        when = f" until {known.until}" if known.until else ""
        message = f"{known.address} rests{when}: external servers may still trust it as its previous holder."
        return Refusal(reasons.ADDRESS_QUARANTINED, message, change="Wait, or ask for another.")

    def _is_of(self, last: AddressHolder, namespace: str) -> bool:
        known = bool(last.namespace_uid) and last.namespace_uid == self.terms.uid_of(namespace)
        return last.namespace == namespace and known

    def _any(self, wish: AddressWish, family: int) -> PooledTake[T] | Refusal:
        made = [
            address
            for address in self._spare - self._gone
            if address.version == family
            and (not wish.location or self._known[address].location in ("", wish.location))
            and (_is_meant_for(self._known[address], wish) or _is_available(self._known[address]))
        ]
        if made:
            first = min(made, key=lambda address: (not _is_meant_for(self._known[address], wish), int(address)))
            return PooledTake(first, self._known[first].source)
        if not self.terms.auto_assign:
            message = f"{self.terms.title} gives addresses only to claims that ask for one by number."
            return Refusal(reasons.POOL_EXHAUSTED, message, change=self.terms.by_number)
        free = self.terms.ranges.search(family, digest(wish.uid)) if family not in self._full else ()
        for address in free:
            if address not in self._known and address not in self._gone:
                return PooledTake(address)
        self._full.add(family)
        message = f"{self.terms.title} has no free IPv{family} address."
        return Refusal(reasons.POOL_EXHAUSTED, message, change=f"Add a range to {self.terms.title}.")

    def _within_quota(self, take: PooledTake[T], wish: AddressWish) -> Refusal | None:
        quota, namespace = self.terms.quota, wish.namespace
        if quota is None:
            return None
        title, mine = self.terms.title, self._by_namespace.get(namespace, set())
        most = next((each.addresses for each in quota.overrides if each.namespace == namespace), quota.per_namespace)
        held = {family_of(each) for each in self._by_uid.get(wish.uid, ())}
        # A claim that requires all its families gets all or none, so all of them must fit.
        new = len(set(wish.families) - held) if wish.requires_all else 1
        if most is not None and take.address not in mine and len(mine) + new > most:
            message = f"Namespace {namespace} has {len(mine)} of the {most} addresses that {title} gives it."
            return Refusal(reasons.QUOTA_EXCEEDED, message, change=self.terms.less)
        if quota.total is not None and take.address not in self._bound and len(self._bound) + new > quota.total:
            message = f"{len(self._bound)} of the {quota.total} addresses of {title} are in use."
            return Refusal(reasons.QUOTA_EXCEEDED, message, change=f"Raise the total quota of {title}.")
        return None


def _is_meant_for(known: HeldAddress[T], wish: AddressWish) -> bool:
    """Return True if a manager has reserved an address for a claim of this name, or for its whole namespace."""
    first = known.holders[0] if known.holders else None
    if first is None or first.uid or first.namespace != wish.namespace:
        return False
    return (first.kind, first.name) in ((wish.kind, wish.name), ("", ""))


def _is_available(known: HeldAddress[T]) -> bool:
    return not known.holders and known.phase in ("", "Available") and not known.going
