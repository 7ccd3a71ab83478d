"""Every live instance has its own addresses, and released ones are used again."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv6Interface, ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from tarmac.api.compute.instance import InterfaceAddress
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.addresses import Assignment, SubnetPool, assign, mac_address, release
from tarmac.decide.addresses.interfaceaddresses import Pools
from tarmac.decide.verdict import Verdict

BOTH: Pools = {"IPv4": [SubnetPool.of("10.128.0.0/28")], "IPv6": [SubnetPool.of("fd20:0:1::/64")]}


def texts(verdict: Verdict[Assignment]) -> list[str]:
    """Return the assigned addresses as text."""
    assert verdict.value is not None
    return [each.address for each in verdict.value.addresses]


def test_an_interface_gets_one_address_of_each_family() -> None:
    """Each has a prefix length and a gateway."""
    verdict = assign(BOTH, ["IPv4", "IPv6"])
    assert verdict.value is not None
    assert verdict.value.addresses == (
        InterfaceAddress("IPv4", "10.128.0.2/28", "10.128.0.1"),
        InterfaceAddress("IPv6", "fd20:0:1::2/64", "fd20:0:1::1"),
    )
    assert texts(assign(verdict.value.pools, ["IPv6"])) == ["fd20:0:1::3/64"]


def test_existing_allocations_are_respected() -> None:
    """In any notation and any order."""
    pool = SubnetPool.of("10.128.0.0/28", ["10.128.0.3/28", "10.128.0.2"])
    assert texts(assign({"IPv4": [pool]}, ["IPv4"])) == ["10.128.0.4/28"]


def test_released_addresses_are_used_again() -> None:
    """The lowest one comes first."""
    pools: Pools = {"IPv4": [SubnetPool.of("10.128.0.0/28", ["10.128.0.2", "10.128.0.3", "10.128.0.4"])]}
    assert texts(assign(release(pools, ["10.128.0.3/28"]), ["IPv4"])) == ["10.128.0.3/28"]


def test_an_address_can_be_kept_over_a_replacement() -> None:
    """A replacement keeps a free address, gets another one otherwise, and never gets a reserved one."""
    assert texts(assign(BOTH, ["IPv4"], preferred=["10.128.0.9/28"])) == ["10.128.0.9/28"]
    taken: Pools = {"IPv4": [SubnetPool.of("10.128.0.0/28", ["10.128.0.9"])]}
    assert texts(assign(taken, ["IPv4"], preferred=["10.128.0.9/28"])) == ["10.128.0.2/28"]
    for reserved in ("10.128.0.0", "10.128.0.1", "10.128.0.15", "10.9.9.9", "fd20::9"):
        assert texts(assign(BOTH, ["IPv4"], preferred=[reserved])) == ["10.128.0.2/28"]


def test_the_next_subnet_serves_when_the_first_is_full() -> None:
    """Subnets are used in order."""
    full = SubnetPool.of("10.128.0.0/28", [f"10.128.0.{last}" for last in range(2, 15)])
    assert texts(assign({"IPv4": [full, SubnetPool.of("10.128.16.0/28")]}, ["IPv4"])) == ["10.128.16.2/28"]


def test_exhaustion_names_the_range_and_the_change() -> None:
    """Nothing of the other family is taken."""
    full: Pools = {"IPv4": [SubnetPool.of("10.0.0.0/28", [f"10.0.0.{last}" for last in range(2, 15)])], **_only("IPv6")}
    verdict = assign(full, ["IPv6", "IPv4"])
    assert verdict.value is None
    (refusal,) = verdict.refusals
    assert refusal.reason == reasons.ADDRESS_POOL_EXHAUSTED
    assert "10.0.0.0/28" in refusal.message
    assert "13" in refusal.message
    assert "subnet" in refusal.change


def _only(family: str) -> Pools:
    return {name: pools for name, pools in BOTH.items() if name == family}


def test_a_family_that_the_network_does_not_carry_is_said() -> None:
    """The message names the family that it carries."""
    verdict = assign(_only("IPv4"), ["IPv6"])
    assert [refusal.reason for refusal in verdict.refusals] == [reasons.ADDRESS_FAMILY_NOT_CARRIED]
    assert "IPv4" in verdict.refusals[0].message


@pytest.mark.parametrize(("subnet", "usable"), [("10.0.0.0/28", 13), ("10.0.0.0/20", 4093), ("fd20::/124", 14)])
def test_a_subnet_is_used_to_the_last_address(subnet: str, usable: int) -> None:
    """All but the first two, and in IPv4 the last, are assigned once each."""
    pool, found = SubnetPool.of(subnet), list[str]()
    assert pool.free == usable
    while (taken := pool.take()) is not None:
        address, pool = taken
        found.append(address)
    assert len(set(found)) == len(found) == usable
    written = [ip_interface(f"{address}/{subnet.partition('/')[2]}") for address in found]
    assert all(address.network == pool.subnet for address in written)
    outside = {pool.subnet.network_address, pool.subnet.network_address + 1}
    if pool.subnet.version == 4:
        outside.add(pool.subnet.broadcast_address)
    assert not outside & {address.ip for address in written}


@pytest.mark.parametrize("subnet", ["fd20::/64", "10.0.0.0/8"])
def test_a_large_subnet_hands_out_a_bounded_part(subnet: str) -> None:
    """An address far above the part does not count."""
    pool = SubnetPool.of(subnet, ["fd20::ffff:ffff:ffff"] if ":" in subnet else ["10.200.0.0"])
    assert 65_000 < pool.free <= 65_536


def test_hardware_addresses_are_local_unicast_and_follow_from_the_address() -> None:
    """Different in another network, the same again for the same address."""
    first = mac_address("prod/default", "10.128.0.2/20")
    assert first == mac_address("prod/default", "10.128.0.2")
    assert first != mac_address("test/default", "10.128.0.2")
    assert int(first[:2], 16) & 3 == 2


@given(st.lists(st.integers(2, 14), unique=True), st.lists(st.integers(2, 14)))
def test_taking_and_releasing_is_the_same_as_starting_from_what_is_left(taken: list[int], gone: list[int]) -> None:
    """The pool depends on the addresses in use, not on its history."""
    pools: Pools = {"IPv4": (SubnetPool.of("10.0.0.0/28", [f"10.0.0.{last}" for last in taken]),)}
    left = [last for last in taken if last not in gone]
    fresh: Pools = {"IPv4": (SubnetPool.of("10.0.0.0/28", [f"10.0.0.{last}" for last in left]),)}
    assert release(pools, [f"10.0.0.{last}" for last in gone]) == fresh


class Instances(RuleBasedStateMachine):
    """Instances come and go in a small network of two subnets and both families."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: Pools = {
            "IPv4": (SubnetPool.of("10.0.0.0/28"), SubnetPool.of("10.0.0.16/29")),
            "IPv6": (SubnetPool.of("fd20::/124"),),
        }
        self.live: list[list[str]] = []

    live_ones = Bundle("live_ones")

    @rule(target=live_ones, families=st.sampled_from([("IPv4",), ("IPv6",), ("IPv4", "IPv6"), ("IPv6", "IPv4")]))
    def start(self, families: tuple[str, ...]) -> list[str]:
        """Start an instance, if there is room."""
        wanted: list[IPFamily] = [family for family in self.pools if family in families]
        verdict = assign(self.pools, wanted)
        if verdict.value is None:
            full = [family for family in wanted if not any(pool.free for pool in self.pools[family])]
            assert len(verdict.refusals) == len(full) > 0
            return []
        self.pools = verdict.value.pools
        found = texts(verdict)
        self.live.append(found)
        return found

    @rule(addresses=consumes(live_ones))
    def stop(self, addresses: list[str]) -> None:
        """Stop an instance and release its addresses."""
        if addresses:
            self.pools = release(self.pools, addresses)
            self.live.remove(addresses)

    @precondition(lambda self: bool(self.live))
    @rule()
    def restart_of_the_controller(self) -> None:
        """Rebuild the pools from the live instances."""
        used = [address for addresses in self.live for address in addresses]
        self.pools = {
            family: tuple(
                SubnetPool.of(str(pool.subnet), [each for each in used if ip_interface(each).ip in pool.subnet])
                for pool in pools
            )
            for family, pools in self.pools.items()
        }

    @invariant()
    def no_two_share_an_address(self) -> None:
        """Live addresses are unique and not reserved."""
        used = [ip_interface(address) for addresses in self.live for address in addresses]
        assert len(set(used)) == len(used)
        for each in used:
            self.check(each)

    def check(self, used: IPv4Interface | IPv6Interface) -> None:
        """Assert that an address is neither network, gateway nor broadcast."""
        assert used.ip not in (used.network.network_address, used.network.network_address + 1)
        assert used.version == 6 or used.ip != used.network.broadcast_address


TestInstances = Instances.TestCase
