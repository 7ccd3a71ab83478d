"""Free addresses of a network's subnets, for any order of requests and holders."""

from __future__ import annotations

from random import Random

import pytest

from tarmac.controllers.networkaddresses import NetworkAddresses
from tarmac.decide.addresses import SubnetPool

SUBNETS = ("10.0.0.0/28", "10.0.0.16/28", "10.0.1.0/24", "fd20::/64", "fd20:0:0:1::/64")
ADDRESSES = (
    *(f"10.0.{third}.{last}" for third in (0, 1) for last in (2, 3, 15, 18, 30, 200)),
    *("fd20::2", "fd20::ffff", "fd20:0:0:1::2", "192.0.2.1", "none at all", "", "10.0.", "10.0.0.4\0"),
)


@pytest.mark.parametrize("seed", range(30))
def test_a_pool_is_the_same_whenever_it_is_asked_for(seed: int) -> None:
    random, network, held = Random(seed), NetworkAddresses(), list[str]()
    for _ in range(200):
        if held and random.random() < 0.45:
            network.release(held.pop(random.randrange(len(held))))
        else:
            held.append(random.choice(ADDRESSES))
            network.hold(held[-1])
        asked = random.choice(SUBNETS)
        known = [each for each in held if each[:1].isdigit() or ":" in each]
        assert network.pool(asked) == SubnetPool.of(asked, known), f"{asked} with {held}"
        assert network.held == bool(held)


def test_an_address_is_one_however_it_is_written() -> None:
    network = NetworkAddresses()
    network.hold("fd20::2")
    network.hold("fd20:0:0:0::2")
    network.release("fd20::2")
    assert not network.pool("fd20::/64").is_free("fd20::2")
    network.release("fd20::2")
    assert network.pool("fd20::/64").is_free("fd20::2")
    assert not network.held
