"""Claims get addresses of their class: held, requested or any; never reserved, foreign or resting ones."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim
from tarmac.decide.egress.binding import kept
from tarmac.decide.egress.claims import allows, names_claim
from tarmac.decide.egress.numbers import dialled_address, next_id, next_transit, transit_address, transit_number
from tarmac.decide.egress.pool import SourceIPPool
from tarmac.decide.pooled.ranges import Ranges
from tests.decide.egress.making import address_class, bound, claim, service, source_ip


def given(pool: SourceIPPool, wanted: SourceIPClaim) -> list[str]:
    verdict = pool.bind(wanted)
    assert verdict.value is not None, verdict.refusals
    return [str(each.address) for each in verdict.value]


def refused(pool: SourceIPPool, wanted: SourceIPClaim) -> str:
    verdict = pool.bind(wanted)
    assert verdict.value is None
    assert verdict.refusals[0].change, "every refusal names a change"
    return verdict.refusals[0].reason


def test_any_address_is_one_of_the_class_and_the_same_each_time() -> None:
    first = given(SourceIPPool(address_class(), []), claim())
    assert first == given(SourceIPPool(address_class(), []), claim())
    assert Ranges(address_class().spec).hold(ip_address(first[0]))


def test_a_claim_keeps_its_addresses_when_quota_and_class_change() -> None:
    mine = claim()
    pool = SourceIPPool(address_class(quota={"total": 0}), [source_ip("192.0.2.5", mine)])
    verdict = pool.bind(mine)
    assert verdict.value is not None
    assert [(str(each.address), each.held) for each in verdict.value] == [("192.0.2.5", True)]


@pytest.mark.parametrize(
    ("changes", "address", "reason"),
    [
        ({}, "192.0.2.99", "AddressNotInClass"),
        ({}, "192.0.2.0", "AddressReserved"),
        ({}, "192.0.2.15", "AddressReserved"),
        ({"subnet": {"gateway": "192.0.2.3"}}, "192.0.2.3", "AddressReserved"),
        ({"ranges": "192.0.2.64/27", "subnet": {"prefixLength": 25}}, "192.0.2.64", None),
        ({"ranges": "192.0.2.64/26", "subnet": {"prefixLength": 25}}, "192.0.2.127", "AddressReserved"),
        ({"ranges": "192.0.2.8/31"}, "192.0.2.8", None),
        ({"ranges": [{"start": "192.0.2.0", "end": "192.0.2.9"}]}, "192.0.2.0", None),
        ({}, "192.0.2.6", "AddressReserved"),
    ],
)
def test_an_address_by_number(changes: dict[str, Any], address: str, reason: str | None) -> None:
    pool = SourceIPPool(address_class(**changes), [], [ip_address("192.0.2.6")])
    if reason is None:
        assert given(pool, claim(address=address)) == [address]
    else:
        assert refused(pool, claim(address=address)) == reason


def test_an_address_that_others_hold_is_refused_unless_the_class_shares() -> None:
    theirs = source_ip("192.0.2.5", claim("theirs", "shop"))
    assert refused(SourceIPPool(address_class(), [theirs]), claim(address="192.0.2.5")) == "AddressInUse"
    assert (
        refused(SourceIPPool(address_class(sharing="Namespace"), [theirs]), claim(address="192.0.2.5"))
        == "AddressInUse"
    )
    assert given(SourceIPPool(address_class(sharing="Class"), [theirs]), claim(address="192.0.2.5")) == ["192.0.2.5"]
    fresh = given(SourceIPPool(address_class(sharing="Class"), [theirs]), claim())
    assert fresh != ["192.0.2.5"], "without a request each claim gets its own"


def resting(namespace_uid: str) -> SourceIP:
    last = {"namespace": "team", "name": "old", "uid": "u", "namespaceUID": namespace_uid}
    status = {"phase": "Quarantined", "lastClaim": last, "quarantinedUntil": "2026-11-17T10:00:00Z"}
    return source_ip("192.0.2.5", status=status)


@pytest.mark.parametrize("uid", ["uid-of-an-earlier-one", ""])
def test_a_resting_address_does_not_go_to_a_namespace_made_again_under_the_name(uid: str) -> None:
    for uid_of in ("uid-{}".format, lambda _: ""):
        pool = SourceIPPool(address_class(), [resting(uid)], uid_of=uid_of)
        assert refused(pool, claim(address="192.0.2.5")) == "AddressQuarantined"


def test_a_resting_address_goes_back_to_the_namespace_that_had_it_and_to_nobody_else() -> None:
    pool = SourceIPPool(address_class(ranges="192.0.2.4/31"), [resting("uid-team")], uid_of="uid-{}".format)
    assert given(pool, claim(address="192.0.2.5")) == ["192.0.2.5"]
    assert refused(pool, claim(namespace="shop", address="192.0.2.5")) == "AddressQuarantined"
    assert given(pool, claim()) == ["192.0.2.4"], "only on request"
    pool.lose(ip_address("192.0.2.4"))
    assert refused(pool, claim()) == "PoolExhausted"


def test_a_retained_address_waits_for_a_manager_also_for_its_own_namespace() -> None:
    status = {"phase": "Released", "lastClaim": {"namespace": "team", "name": "old", "uid": "u"}}
    kept = source_ip("192.0.2.5", claim("old"), status=status, reclaimPolicy="Retain")
    assert refused(SourceIPPool(address_class(), [kept]), claim(address="192.0.2.5")) == "AddressQuarantined"


def test_addresses_that_managers_made_come_first_and_those_meant_for_the_claim_before_them() -> None:
    free = source_ip("192.0.2.3", status={"phase": "Available"})
    meant = source_ip("192.0.2.9", claimRef={"namespace": "team", "name": "c"}, status={})
    assert given(SourceIPPool(address_class(), [free]), claim()) == ["192.0.2.3"]
    assert given(SourceIPPool(address_class(), [free, meant]), claim()) == ["192.0.2.9"]
    assert given(SourceIPPool(address_class(), [free, meant]), claim("other")) == ["192.0.2.3"]
    elsewhere = source_ip("192.0.2.3", location="ams", status={"phase": "Available"})
    assert given(SourceIPPool(address_class(), [elsewhere]), claim(location="dfw")) != ["192.0.2.3"]


def test_a_class_that_assigns_nothing_by_itself() -> None:
    assert refused(SourceIPPool(address_class(autoAssign=False), []), claim()) == "PoolExhausted"
    assert given(SourceIPPool(address_class(autoAssign=False), []), claim(address="192.0.2.5")) == ["192.0.2.5"]


def test_all_families_or_none() -> None:
    both = claim(families=["IPv6", "IPv4"])
    assert refused(SourceIPPool(address_class(), []), both) == "PoolExhausted"
    ranges = [{"cidr": "192.0.2.0/28"}, {"cidr": "2001:db8::/64"}]
    six, four = given(SourceIPPool(address_class(ranges=ranges), []), both)
    assert (":" in six, "." in four) == (True, True)
    assert refused(SourceIPPool(address_class(ranges=ranges, quota={"perNamespace": 1}), []), both) == "QuotaExceeded"


def test_quotas_count_addresses_in_all_and_for_each_namespace() -> None:
    theirs = [source_ip(f"192.0.2.{n}", claim(f"t{n}", "shop")) for n in (2, 3)]
    offered = {"perNamespace": 2, "overrides": [{"namespace": "team", "addresses": 1}]}
    pool = SourceIPPool(address_class(quota=offered), theirs)
    assert refused(pool, claim(namespace="shop")) == "QuotaExceeded"
    given(pool, claim())
    pool.put(source_ip("192.0.2.9", claim("first")))
    assert refused(pool, claim()) == "QuotaExceeded"
    assert refused(SourceIPPool(address_class(quota={"total": 2}), theirs), claim()) == "QuotaExceeded"
    at_rest = source_ip("192.0.2.4", status={"phase": "Quarantined"})
    given(SourceIPPool(address_class(quota={"total": 1}), [at_rest]), claim())


def test_a_shared_address_counts_once_in_each_namespace_and_once_in_all() -> None:
    shared = source_ip("192.0.2.5", claim("theirs", "shop"))
    pool = SourceIPPool(address_class(sharing="Class", quota={"total": 1, "perNamespace": 1}), [shared])
    assert given(pool, claim(address="192.0.2.5")) == ["192.0.2.5"]
    assert refused(pool, claim()) == "QuotaExceeded"


def test_ten_thousand_claims_get_different_addresses_in_one_pass() -> None:
    pool, seen = SourceIPPool(address_class(ranges="10.0.0.0/18"), []), set[str]()
    for number in range(10_000):
        mine = claim(f"c{number}")
        (address,) = given(pool, mine)
        assert address not in seen
        seen.add(address)
        pool.put(source_ip(address, mine))


@pytest.mark.parametrize(
    ("changes", "family", "size"),
    [
        ({}, 4, 14),
        ({"ranges": "192.0.2.8/31"}, 4, 2),
        ({"ranges": "2001:db8::/120"}, 6, 255),
        ({"ranges": "2001:db8::/48"}, 6, 1 << 53),
        ({"subnet": {"gateway": "192.0.2.1"}}, 4, 13),
        ({"ranges": "192.0.2.0/24", "subnet": {"prefixLength": 25}}, 4, 252),
        ({"ranges": "192.0.2.16/28", "subnet": {"prefixLength": 24, "gateway": "192.0.2.1"}}, 4, 16),
    ],
)
def test_a_class_knows_how_many_it_can_hand_out(changes: dict[str, Any], family: int, size: int) -> None:
    ranges = Ranges(address_class(**changes).spec)
    assert ranges.size(family) == size
    if size < 1000:
        assert len(set(ranges.search(family, 77))) == size


def test_nobody_may_use_a_class_that_names_nobody() -> None:
    assert not allows(address_class(allowedNamespaces=None).spec, "team", {})
    assert allows(address_class().spec, "team", {})
    labelled = address_class(allowedNamespaces={"selector": {"matchLabels": {"tier": "a"}}}).spec
    assert (allows(labelled, "x", {"tier": "a"}), allows(labelled, "x", {"tier": "b"})) == (True, False)


def test_numbers_stay_and_never_meet() -> None:
    first = dialled_address("u", 4, ())
    assert dialled_address("u", 4, {first}) != first
    assert dialled_address("u", 4, {first}, known=first) == first
    assert dialled_address("u", 6, (), known=first).startswith("fd74:6172:6d63:fffc:")
    number = next_transit("u", "n", "a/b", "192.0.2.1", ())
    assert number != next_transit("u", "n", "a/b", "192.0.2.1", {number})
    for family in (4, 6):
        assert transit_number(transit_address(number, family)) == number


def test_an_identity_that_was_given_up_is_not_given_again_at_once() -> None:
    assert next_id(set(), 0) == 1
    assert next_id({1, 3}, 3) == 4
    assert next_id({1, 65_535}, 65_535) == 2
    assert next_id(set(range(1, 65_536)), 5) is None


def test_a_class_without_a_free_address_is_searched_once_however_many_claims_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, searches = SourceIPPool(address_class(ranges="192.0.2.0/30"), []), list[int]()
    search = pool.ranges.search
    monkeypatch.setattr(pool.ranges, "search", lambda *asked: searches.append(1) or search(*asked))
    for number in (1, 2):
        pool.put(source_ip(f"192.0.2.{number}", claim(f"held-{number}")))
    assert {refused(pool, claim(f"c{number}")) for number in range(50)} == {"PoolExhausted"}
    assert len(searches) == 1


def test_an_address_is_the_same_however_it_is_written() -> None:
    source = {"service": {"name": "web"}, "sourceIP": "2001:DB8:0::5"}
    using = service(targetIP="2001:db8:9::1", sources=[source])
    assert names_claim(using, bound("c", "2001:db8::5"))
    assert not names_claim(using, bound("c", "2001:db8::6"))


def test_a_bound_claim_without_a_class_has_lost_its_address() -> None:
    verdict = kept(claim(), None)
    assert [each.reason for each in verdict.refusals] == ["AddressLost"]
