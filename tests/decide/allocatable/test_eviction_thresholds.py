"""Thresholds in the format of a kubelet's configuration."""

from __future__ import annotations

import struct

import pytest

from tarmac.decide.allocatable.thresholds import Measure, Threshold, thresholds


def test_amounts_and_shares() -> None:
    amount, share = thresholds({"memory.available": "100Mi", "nodefs.available": "10%"}, {}, {}, {})
    assert amount == Threshold("memory.available", Measure(100 << 20))
    assert share.least.of(1000) == 100


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_signal_is_switched_off_by_a_share_that_means_nothing(text: str) -> None:
    assert thresholds({"memory.available": text}, {}, {}, {}) == ()


def test_soft_ones_have_a_grace_period_and_all_may_reclaim_more() -> None:
    (found,) = thresholds({}, {"memory.available": "1Gi"}, {"memory.available": "1m30s"}, {"memory.available": "500Mi"})
    assert found == Threshold("memory.available", Measure(1 << 30), 90.0, Measure(500 << 20))
    assert not found.hard


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        (({"memory.free": "1Gi"}, {}, {}, {}), "evictionHard: 'memory.free' is no signal"),
        (({"memory.available": "-1"}, {}, {}, {}), r"evictionHard\[memory.available\]: '-1' must be positive"),
        (({"memory.available": "101%"}, {}, {}, {}), "not between 0% and 100%"),
        (({"memory.available": "x%"}, {}, {}, {}), r"evictionHard\[memory.available\]"),
        (({"memory.available": "nan%"}, {}, {}, {}), "'nan%' is not a share"),
        (({"memory.available": "٣%"}, {}, {}, {}), "is not a share"),
        (({"memory.available": "9" * 5000 + "%"}, {}, {}, {}), "is not a share"),
        (({}, {"pid.available": "10"}, {}, {}), "evictionSoftGracePeriod: there is none for pid.available"),
        (({}, {"pid.available": "10"}, {"pid.available": "0s"}, {}), "must be positive"),
        (({}, {}, {}, {"pid.available": "?"}), r"evictionMinimumReclaim\[pid.available\]"),
    ],
)
def test_invalid_thresholds_are_named(maps: tuple[dict[str, str], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        thresholds(*maps)


def share_of(text: str, capacity: int) -> int:
    (found,) = thresholds({"memory.available": text}, {}, {}, {})
    return found.least.of(capacity)


@pytest.mark.parametrize("text", ["5%", "10%", "33.3%", "1e-3%", ".7%", "99.9%", "12.5%"])
def test_a_share_of_a_capacity_is_what_a_kubelet_computes_with_floats(text: str) -> None:
    def single(number: float) -> float:
        return struct.unpack("f", struct.pack("f", number))[0]

    share = single(single(float(text.removesuffix("%"))) / 100)
    for capacity in (0, 1, 1000, 10 << 30, (10 << 30) + 7, 2**53 + 1, 2**63 - 1):
        assert share_of(text, capacity) == int(float(capacity) * share)


def test_a_share_of_more_than_any_float_is_exact() -> None:
    assert share_of("50%", 2**4000) == 2**3999
