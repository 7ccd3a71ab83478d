"""Devices of a finished init container are reused first, then those that the plugin prefers, then any free ones."""

from __future__ import annotations

import pytest

from tarmac.agent.devices.choice import DeviceRequest, NotEnoughDevices, choose, reusable_after, wanted_by
from tests.agent.devices.plugin import RESOURCE
from tests.agent.devices.stage import a_pod

TWO = DeviceRequest("main", RESOURCE, 2)
FREE = ["d", "a", "c", "b"]


def test_free_ones_are_taken_in_the_order_of_the_list() -> None:
    assert choose(TWO, (), FREE).ids == ("d", "a")


def test_preferred_ones_come_first_as_far_as_they_are_free() -> None:
    assert choose(TWO, (), FREE, ["b", "taken"]).ids == ("b", "d")
    assert choose(TWO, (), FREE, ["c", "c", "b", "a"]).ids == ("c", "b")


def test_devices_of_an_init_container_come_before_all_others() -> None:
    chosen = choose(TWO, {"x"}, FREE, ["b"])
    assert (chosen.ids, chosen.reused) == (("x", "b"), 1)
    assert choose(TWO, {"z", "y", "x"}, []).ids == ("x", "y")


def test_too_few_are_refused_in_kubelets_words() -> None:
    with pytest.raises(NotEnoughDevices) as refused:
        choose(DeviceRequest("main", RESOURCE, 3), {"x"}, ["a"])
    words = f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
    assert str(refused.value) == words


def test_a_pod_asks_by_its_limits_init_containers_first() -> None:
    pod = a_pod("u", ("main", 2), ("idle", 0), init=(("first", 1),))
    assert list(wanted_by(pod)) == [DeviceRequest("first", RESOURCE, 1), DeviceRequest("main", RESOURCE, 2)]


def test_a_completed_init_container_leaves_its_devices_to_later_containers() -> None:
    pod = a_pod("u", ("main", 1), ("other", 1), init=(("one", 2), ("sidecar", 1, True), ("two", 1)))
    held = {"one": ["a", "b"], "sidecar": ["a"], "two": ["b"], "main": ["b"]}
    found = {name: reusable_after(pod, name, held) for name in ("one", "sidecar", "two", "main", "other")}
    assert found == {"one": set(), "sidecar": {"a", "b"}, "two": {"b"}, "main": {"b"}, "other": set()}
