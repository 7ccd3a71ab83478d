"""Binding of Services and Workloads to public addresses: from which pool, which address, shared with which Services.

A `PoolBook` holds all pools and addresses during one pass. A decision is only a proposal, as in `pooled.pool`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import Address
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import MAX_SHARED, HolderReference, LastHolder, PublicAddress
from tarmac.decide import reasons
from tarmac.decide.ingress.addressclaims import IngressClaim
from tarmac.decide.pooled.overlap import RangeOwner, overlapped_by_older
from tarmac.decide.pooled.pool import (
    RESTING,
    AddressHolder,
    AddressWish,
    HeldAddress,
    HeldAddresses,
    PooledTake,
    PoolTerms,
)
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.verdict import Refusal, Verdict

Take = PooledTake[PublicAddress]


@dataclass(frozen=True, slots=True)
class Binding:
    """The addresses of a claim, and their pool."""

    pool: AddressPool
    takes: tuple[Take, ...]


def holders(address: PublicAddress) -> list[HolderReference]:
    """Return the holders of an address: `claimRef`, then those that share it."""
    first = address.spec.claim_ref
    return [] if first is None else [first, *address.spec.shared_by]


def phase_of(address: PublicAddress) -> str:
    """Return the phase in the status; empty before the first reconcile."""
    return (address.status.phase if address.status is not None else None) or ""


def range_owner(pool: AddressPool) -> RangeOwner:
    """Return a pool for the comparison of ranges."""
    own = pool.metadata
    return RangeOwner((own.creation_timestamp or "", own.name), f"AddressPool {own.name}", pool.spec.ranges)


class PoolBook:
    """All pools with their addresses."""

    def __init__(
        self,
        pools: Iterable[AddressPool],
        addresses: Iterable[PublicAddress],
        claims: Mapping[str, IngressClaim],
        *,
        allowed: Callable[[AddressPool, str], bool],
        interfaces: Collection[Address] = (),
        uid_of: Callable[[str], str] = lambda _: "",
        others: Collection[RangeOwner] = (),
    ) -> None:
        """`claims` are all claims by uid; `others` the classes of source addresses, whose ranges count as well."""
        self._claims, self._allowed = claims, allowed
        self._pools = {pool.metadata.name: pool for pool in pools}
        self._of_uid: dict[str, str] = {}  # uid of a holder -> its pool
        self._shared: dict[tuple[str, str], dict[int, tuple[str, Address]]] = {}  # namespace and key -> by version
        owners = [*others, *map(range_owner, self._pools.values())]
        self._overlaps = {name: overlapped_by_older(range_owner(pool), owners) for name, pool in self._pools.items()}
        known: dict[str, list[PublicAddress]] = {name: [] for name in self._pools}
        for each in addresses:
            if each.spec.pool_name in known:
                known[each.spec.pool_name].append(each)
        self._held = {
            name: HeldAddresses(self._terms(pool, interfaces, uid_of), map(held_address, known[name]))
            for name, pool in self._pools.items()
        }
        for name in known:
            for each in known[name]:
                self._note(each)

    def put(self, address: PublicAddress) -> None:
        """Insert or update an address."""
        if address.spec.pool_name in self._held:
            self._held[address.spec.pool_name].put(held_address(address))
            self._note(address)

    def lose(self, pool: str, address: Address) -> None:
        """Exclude an address that was lost to a concurrent writer."""
        self._held[pool].lose(address)

    def held_by(self, uid: str) -> list[PublicAddress]:
        """Return the addresses that a claim holds."""
        pool = self._of_uid.get(uid)
        return self._held[pool].held_by(uid) if pool is not None else []

    def bind(self, claim: IngressClaim) -> Verdict[Binding]:
        """Return the claim's addresses, or why it gets none."""
        if claim.kind == "Workload" and not claim.ports:
            return _no(reasons.NO_PORTS, "The template declares no port.", "Declare the ports of a container.")
        pools = self._candidates(claim)
        if isinstance(pools, Refusal):
            return Verdict(None, (pools,))
        first: Verdict[Binding] | None = None
        for name in pools:
            verdict = self._held[name].bind(claim.wish(self._asked(claim, name)))
            if verdict.value is not None:
                return Verdict(Binding(self._pools[name], verdict.value), verdict.refusals)
            first = first or Verdict(None, verdict.refusals)
        return first or _no_pool(claim)

    def _candidates(self, claim: IngressClaim) -> list[str] | Refusal:
        """Return the pools to try in order. A claim with an address stays in the pool that it has it from."""
        present = self._of_uid.get(claim.uid) or self._pool_of_key(claim)
        if present is not None:
            return [present]
        if claim.pool:
            return self._named(claim) or [claim.pool]
        able = [
            pool
            for pool in self._pools.values()
            if self._usable(pool, claim) is None
            and pool.spec.auto_assign is not False
            and (families := _families(pool)) & set(claim.families)
            and (not claim.requires_all or families >= set(claim.families))
        ]
        able.sort(
            key=lambda pool: (not _families(pool) >= set(claim.families), -pool.spec.priority, pool.metadata.name)
        )
        return [pool.metadata.name for pool in able]

    def _named(self, claim: IngressClaim) -> Refusal | None:
        pool = self._pools.get(claim.pool)
        if pool is None:
            message = f"AddressPool {claim.pool} does not exist."
            return Refusal(
                reasons.POOL_NOT_FOUND, message, claim.pool, "pool", "Name another, or ask a manager for it."
            )
        return self._usable(pool, claim)

    def _usable(self, pool: AddressPool, claim: IngressClaim) -> Refusal | None:
        name = pool.metadata.name
        if pool.spec.scope != claim.scope:
            message = f"AddressPool {name} has scope {pool.spec.scope}; a {claim.kind} needs scope {claim.scope}."
            return Refusal(reasons.POOL_NOT_FOUND, message, name, "pool", f"Name a pool of scope {claim.scope}.")
        if pool.metadata.deletion_timestamp is not None:
            return Refusal(reasons.TERMINATING, f"AddressPool {name} is being deleted.", name, "pool", "Name another.")
        if not self._allowed(pool, claim.namespace):
            message = f"AddressPool {name} does not allow namespace {claim.namespace}."
            return Refusal(reasons.NOT_AUTHORIZED, message, name, "pool", "Ask a manager to allow the namespace.")
        return self._overlaps[name]

    def _pool_of_key(self, claim: IngressClaim) -> str | None:
        """Return the pool of the address that Services with the same key share."""
        shared = self._shared.get((claim.namespace, claim.shared), {}) if claim.shared else {}
        pools = {pool for pool, _ in shared.values()}
        found = min(pools, default=None)
        usable = found is not None and claim.pool in ("", found) and self._usable(self._pools[found], claim) is None
        return found if usable else None

    def _asked(self, claim: IngressClaim, pool: str) -> Mapping[int, Address]:
        """Return the addresses to ask for: those of the key first, then those that the claim names."""
        shared = self._shared.get((claim.namespace, claim.shared), {}) if claim.shared else {}
        return {**claim.asked, **{version: address for version, (name, address) in shared.items() if name == pool}}

    def _note(self, address: PublicAddress) -> None:
        if phase_of(address) in RESTING:
            return
        parsed, pool = ip_address(address.spec.address), address.spec.pool_name
        for each in holders(address):
            claim = self._claims.get(each.uid)
            if each.uid:
                self._of_uid[each.uid] = pool
            if claim is not None and claim.shared and self._pools[pool].spec.sharing == "Namespace":
                self._shared.setdefault((claim.namespace, claim.shared), {}).setdefault(parsed.version, (pool, parsed))

    def _terms(
        self, pool: AddressPool, interfaces: Collection[Address], uid_of: Callable[[str], str]
    ) -> PoolTerms[PublicAddress]:
        def share(held: HeldAddress[PublicAddress], wish: AddressWish) -> Refusal | bool:
            return self._share(pool, held, wish)

        return PoolTerms(
            f"AddressPool {pool.metadata.name}",
            Ranges(pool.spec, interfaces),
            share,
            pool.spec.quota,
            # The annotation that names the pool is the request that such a pool waits for.
            auto_assign=True,
            less="Delete a Service or Workload that has one, or ask for a higher quota.",
            uid_of=uid_of,
        )

    def _share(self, pool: AddressPool, held: HeldAddress[PublicAddress], wish: AddressWish) -> Refusal | bool:
        """Return whether a Service may share an address: same namespace, key, policy, and ports of its own."""
        mine = self._claims.get(wish.uid)
        present = [self._claims.get(each.uid) for each in held.holders]
        if mine is None or not mine.shared or mine.kind != "Service":
            return False
        if pool.spec.sharing == "None":
            message = f"AddressPool {pool.metadata.name} does not share addresses."
            return Refusal(reasons.POLICY_MISMATCH, message, change="Remove the key, or name a pool that shares.")
        for each in present:
            # Never across namespaces: the key of another tenant may be equal by chance or on purpose.
            if each is None or each.namespace != mine.namespace or each.shared != mine.shared:
                return False
            if each.policy != mine.policy:
                message = f"{held.address} is that of Service {each.name} with externalTrafficPolicy {each.policy}."
                return Refusal(reasons.POLICY_MISMATCH, message, change=f"Set externalTrafficPolicy to {each.policy}.")
            if both := sorted(each.ports & mine.ports):
                protocol, port = both[0]
                message = f"Service {each.name} has port {port}/{protocol} of {held.address}."
                return Refusal(reasons.PORT_CONFLICT, message, change="Use another port, or another key.")
        return len(present) <= MAX_SHARED


def held_address(address: PublicAddress) -> HeldAddress[PublicAddress]:
    """Return an address in the terms of pools."""
    spec, status = address.spec, address.status
    last = status.last_claim if status is not None else None
    return HeldAddress(
        ip_address(spec.address),
        address,
        tuple(map(_holder, holders(address))),
        phase_of(address),
        retained=spec.reclaim_policy == "Retain",
        going=address.metadata.deletion_timestamp is not None,
        last=_holder(last) if last is not None else None,
        until=(status.quarantined_until if status is not None else None) or "",
    )


def _holder(reference: HolderReference | LastHolder) -> AddressHolder:
    kind = reference.kind or ""
    return AddressHolder(kind, reference.namespace, reference.name, reference.uid, reference.namespace_uid)


def _families(pool: AddressPool) -> set[str]:
    return {f"IPv{bounds_of(each).family}" for each in pool.spec.ranges}


def _no(reason: str, message: str, change: str) -> Verdict[Binding]:
    return Verdict(None, (Refusal(reason, message, rule="address", change=change),))


def _no_pool(claim: IngressClaim) -> Verdict[Binding]:
    message = f"No AddressPool of scope {claim.scope} gives {' and '.join(claim.families)} to {claim.namespace}."
    return _no(reasons.NO_POOL, message, "Ask a manager for a pool that allows the namespace.")
