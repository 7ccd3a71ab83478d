"""Thresholds as a kubelet's configuration writes them."""

from __future__ import annotations

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
        (({}, {"pid.available": "10"}, {}, {}), "evictionSoftGracePeriod: there is none for pid.available"),
        (({}, {"pid.available": "10"}, {"pid.available": "0s"}, {}), "must be positive"),
        (({}, {}, {}, {"pid.available": "?"}), r"evictionMinimumReclaim\[pid.available\]"),
    ],
)
def test_what_makes_no_sense_is_named(maps: tuple[dict[str, str], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        thresholds(*maps)
