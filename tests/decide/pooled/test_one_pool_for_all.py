"""Addresses of a pool for holders of any kind: reservations, optional families, sharing."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from tarmac.api.declare import decode
from tarmac.api.egress.sourceip import ClassQuota
from tarmac.api.ingress.addresspool import AddressPoolSpec
from tarmac.decide import reasons
from tarmac.decide.pooled.pool import AddressHolder, AddressWish, HeldAddress, HeldAddresses, PoolTerms
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.verdict import Refusal

SPEC = decode(AddressPoolSpec, {"ranges": [{"start": "203.0.113.5", "end": "203.0.113.6"}, {"cidr": "2001:db8::/126"}]})
OTHER = AddressHolder("Service", "team", "other", "u-other", "ns")


def held(number: int, *holders: AddressHolder, **more: Any) -> HeldAddress[str]:
    return HeldAddress(ip_address(f"203.0.113.{number}"), f"object {number}", holders, **more)


def wish(name: str = "web", *families: str, asked: str = "", **more: Any) -> AddressWish:
    given = {ip_address(asked).version: ip_address(asked)} if asked else {}
    return AddressWish("Service", "team", name, f"u-{name}", families or ("IPv4",), given, **more)


def addresses(*known: HeldAddress[str], share: Refusal | bool = False, **more: Any) -> HeldAddresses[str]:
    terms: PoolTerms[str] = PoolTerms("AddressPool public", Ranges(SPEC), lambda _, __: share, **more)
    return HeldAddresses(terms, known)


def reason(pool: HeldAddresses[str], asked: AddressWish) -> str:
    verdict = pool.bind(asked)
    assert verdict.value is None
    return verdict.refusals[0].reason


def test_a_reservation_for_a_namespace_is_for_all_its_holders_and_for_no_other() -> None:
    pool = addresses(held(5, AddressHolder("", "team", "")), held(6, AddressHolder("", "foreign", "")))
    found = pool.bind(wish())
    assert [str(take.address) for take in found.value or ()] == ["203.0.113.5"]
    assert reason(pool, wish(asked="203.0.113.6")) == reasons.ADDRESS_IN_USE
    mine = addresses(
        held(5, AddressHolder("Service", "team", "other")), held(6, AddressHolder("Workload", "team", "web"))
    )
    assert reason(mine, wish()) == reasons.POOL_EXHAUSTED


def test_a_family_that_is_not_required_may_be_missing() -> None:
    pool = addresses(held(5, OTHER), held(6, OTHER))
    both = ("IPv4", "IPv6")
    assert reason(pool, wish("web", *both)) == reasons.POOL_EXHAUSTED
    found = pool.bind(wish("web", *both, requires_all=False))
    assert [take.address.version for take in found.value or ()] == [6]
    assert [each.reason for each in found.refusals] == [reasons.POOL_EXHAUSTED]


@pytest.mark.parametrize(
    ("share", "expected"), [(False, reasons.ADDRESS_IN_USE), (Refusal("PortConflict", "."), "PortConflict"), (True, "")]
)
def test_sharing_is_asked_about_each_held_address(share: Refusal | bool, expected: str) -> None:
    pool = addresses(held(5, OTHER), share=share)
    asked = wish(asked="203.0.113.5")
    if expected:
        assert reason(pool, asked) == expected
    else:
        assert [take.known for take in pool.bind(asked).value or ()] == ["object 5"]


def test_a_shared_address_counts_once_for_its_namespace() -> None:
    pool = addresses(held(5, OTHER), share=True, quota=ClassQuota(per_namespace=1))
    assert pool.bind(wish(asked="203.0.113.5")).value is not None
    assert reason(pool, wish()) == reasons.QUOTA_EXCEEDED


def test_a_resting_address_returns_only_to_the_namespace_that_had_it() -> None:
    last = AddressHolder("Service", "team", "web", "old", "ns")
    resting = held(5, phase="Quarantined", last=last, until="2026-11-20T00:00:00Z")
    assert reason(addresses(resting, uid_of=lambda _: "made-again"), wish(asked="203.0.113.5")) == (
        reasons.ADDRESS_QUARANTINED
    )
    back = addresses(resting, uid_of=lambda _: "ns").bind(wish(asked="203.0.113.5"))
    assert [take.known for take in back.value or ()] == ["object 5"]
