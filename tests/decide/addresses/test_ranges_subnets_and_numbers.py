"""Ranges of networks, their subnets, and network numbers."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.decide import reasons
from tarmac.decide.addresses import allocate_vni, carve, default_range, interfaceaddresses, subnet_prefix, vni_numbers
from tarmac.decide.addresses.interfaceaddresses import FIRST_VNI, LAST_VNI


def test_the_default_ranges() -> None:
    """One range for all in IPv4, a /48 for each network in IPv6."""
    assert default_range("IPv4", "uid-1") == "10.128.0.0/9"
    first = default_range("IPv6", "uid-1")
    assert ip_network(first).subnet_of(ip_network("fd20::/20"))  # pyright: ignore[reportArgumentType]
    assert first.endswith("/48")
    assert first == default_range("IPv6", "uid-1") != default_range("IPv6", "uid-2")
    assert default_range("IPv6", "uid-1", [first]) != first


@pytest.mark.parametrize(
    ("whole", "prefix"),
    [
        ("10.128.0.0/9", 20),
        ("10.0.0.0/20", 20),
        ("10.0.0.0/22", 26),
        ("10.0.0.0/24", 28),
        ("10.0.0.0/28", 28),
        ("fd20::/48", 64),
        ("fd20::/64", 64),
        ("fd20::/112", 116),
        ("fd20::/124", 124),
    ],
)
def test_the_size_of_a_subnet_follows_from_its_range(whole: str, prefix: int) -> None:
    """A /20 or a /64, and sixteenths of smaller ranges."""
    assert subnet_prefix(whole) == prefix


def test_subnets_come_one_after_the_other() -> None:
    """Gaps are filled first."""
    taken: list[str] = []
    for expected in ("10.128.0.0/20", "10.128.16.0/20", "10.128.32.0/20"):
        found = carve("10.128.0.0/9", taken).value
        assert found == expected
        taken.append(expected)
    taken.remove("10.128.16.0/20")
    assert carve("10.128.0.0/9", taken).value == "10.128.16.0/20"
    assert carve("fd20:1::/48", ["fd20:1::/64"]).value == "fd20:1:0:1::/64"


def test_a_subnet_can_be_asked_for_by_place_and_size() -> None:
    """If it is free."""
    assert carve("10.0.0.0/16", [], start="10.0.64.0").value == "10.0.64.0/20"
    assert carve("10.0.0.0/16", ["10.0.0.0/20"], prefix=24).value == "10.0.16.0/24"
    for start, prefix in (("10.0.0.0", None), ("10.1.0.0", None), ("10.0.1.0", 20), ("fd20::", 64)):
        verdict = carve("10.0.0.0/16", ["10.0.0.0/24"], prefix=prefix, start=start)
        assert not verdict.decided
        assert verdict.refusals[0].change


@pytest.mark.parametrize(
    ("whole", "taken", "field"),
    [("10.0.0.0/20", ["10.0.0.0/20"], "ipv4Range"), ("fd20::/64", ["fd20::/64"], "ipv6Range")],
)
def test_a_full_range_names_itself_and_the_change(whole: str, taken: list[str], field: str) -> None:
    """Ranges are immutable, so the change is another network."""
    (refusal,) = carve(whole, taken).refusals
    assert refusal.reason == reasons.ADDRESS_RANGE_EXHAUSTED
    assert whole in refusal.message
    assert field in refusal.change


subnets = st.tuples(st.integers(0, 255), st.integers(24, 28)).map(
    lambda found: str(ip_network(f"10.0.{found[0]}.0/{found[1]}"))
)


@given(st.lists(subnets, max_size=40), st.integers(16, 28))
def test_a_carved_subnet_overlaps_nothing_and_is_the_lowest(taken: list[str], prefix: int) -> None:
    """Compared with a search of all positions."""
    used = [ip_network(each) for each in taken]
    places = ip_network("10.0.0.0/16").subnets(new_prefix=prefix)
    free = next((str(place) for place in places if not any(place.overlaps(each) for each in used)), None)
    assert carve("10.0.0.0/16", taken, prefix=prefix).value == free


@given(st.sets(st.integers(0, 12_000)))
def test_a_network_number_is_the_lowest_that_is_free(taken: set[int]) -> None:
    """Numbers start at 4097."""
    expected = next(number for number in range(FIRST_VNI, LAST_VNI) if number not in taken)
    assert allocate_vni(vni_numbers(taken)).value == expected


def test_numbers_can_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one is used, then the refusal says so."""
    monkeypatch.setattr(interfaceaddresses, "LAST_VNI", FIRST_VNI + 2)
    assert allocate_vni(vni_numbers([FIRST_VNI, FIRST_VNI + 1])).value == FIRST_VNI + 2
    (refusal,) = allocate_vni(vni_numbers(range(FIRST_VNI, FIRST_VNI + 3))).refusals
    assert refusal.reason == reasons.NETWORK_IDS_EXHAUSTED
