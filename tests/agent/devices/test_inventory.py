"""Capacity counts all devices, allocatable the healthy ones; devices of a lost plugin stay for five minutes."""

from __future__ import annotations

from tarmac.agent.devices.inventory import GRACE, Inventory
from tarmac.base.clock import ManualClock

GPU = "example.com/gpu"


def test_all_count_and_the_healthy_ones_may_be_asked_for() -> None:
    inventory = Inventory(ManualClock(), {})
    inventory.connected(GPU)
    assert inventory.amounts()[:2] == ({GPU: 0}, {GPU: 0})
    assert inventory.listed(GPU, {"a": True, "b": False, "c": True}) == {"a", "b", "c"}
    assert inventory.amounts()[:2] == ({GPU: 3}, {GPU: 2})
    assert inventory.listed(GPU, {"a": True, "b": True}) == {"b", "c"}
    assert inventory.amounts()[:2] == ({GPU: 2}, {GPU: 2})
    assert list(inventory.healthy(GPU)) == ["a", "b"]


def test_a_plugin_that_goes_leaves_capacity_and_then_nothing() -> None:
    clock = ManualClock()
    inventory = Inventory(clock, {})
    inventory.connected(GPU)
    inventory.listed(GPU, {"a": True})
    inventory.disconnected(GPU)
    clock.advance(GRACE - 1)
    assert inventory.amounts() == ({GPU: 1}, {GPU: 0}, frozenset())
    assert (dict(inventory.healthy(GPU)), inventory.health(GPU, "a")) == ({}, "Unknown")
    clock.advance(1)
    assert inventory.amounts() == ({}, {}, frozenset({GPU}))
    assert inventory.knows(GPU)
    inventory.connected(GPU)
    inventory.listed(GPU, {"a": True})
    assert inventory.amounts() == ({GPU: 1}, {GPU: 1}, frozenset())


def test_a_plugin_that_comes_back_in_time_goes_on() -> None:
    clock = ManualClock()
    inventory = Inventory(clock, {})
    inventory.connected(GPU)
    inventory.listed(GPU, {"a": True, "b": True})
    inventory.disconnected(GPU)
    clock.advance(GRACE - 1)
    inventory.connected(GPU)
    assert inventory.is_awaited(GPU)
    assert inventory.amounts()[:2] == ({GPU: 2}, {GPU: 0})
    inventory.listed(GPU, {"b": True})
    clock.advance(GRACE)
    assert inventory.amounts()[:2] == ({GPU: 1}, {GPU: 1})


def test_a_new_agent_knows_what_was_there_and_gives_nothing_of_it_out() -> None:
    clock = ManualClock()
    inventory = Inventory(clock, {GPU: ["a", "b"], "example.com/gone": []})
    assert inventory.amounts() == ({GPU: 2}, {GPU: 0}, frozenset({"example.com/gone"}))
    assert inventory.registered() == {GPU: ["a", "b"], "example.com/gone": []}
    assert inventory.is_awaited(GPU)
    clock.advance(GRACE)
    assert inventory.amounts() == ({}, {}, frozenset({GPU, "example.com/gone"}))


def test_the_health_of_a_device_is_what_its_plugin_says() -> None:
    inventory = Inventory(ManualClock(), {})
    inventory.connected(GPU)
    inventory.listed(GPU, {"a": True, "b": False})
    assert [inventory.health(GPU, device) for device in ("a", "b", "c")] == ["Healthy", "Unhealthy", "Unhealthy"]
