"""Samples of the last thirty minutes: in order, of existing pods, within the memory limit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from tarmac.api.schema import JsonObject
from tarmac.base.clock import ManualClock
from tarmac.server.usagehistory import INTERVAL, MAX_OBJECTS, SAMPLES, UsageHistory
from tarmac.store.memory import MemoryStore

BYTES_PER_POD = 400


class Source:
    """Pods with a given usage in millicores."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def pods(self) -> Sequence[JsonObject]:
        return [
            {
                "metadata": {"namespace": "shop", "name": name},
                "containers": [
                    {"usage": {"cpu": f"{cpu}m", "memory": "1Mi"}},
                    {"usage": {"cpu": "0", "memory": "1Mi"}},
                ],
            }
            for name, cpu in self.used.items()
        ]

    def nodes(self) -> Sequence[JsonObject]:
        return [{"metadata": {"name": "dfw-0"}, "usage": {"cpu": f"{sum(self.used.values())}m", "memory": "1Gi"}}]


async def recorded(history: UsageHistory, clock: ManualClock, times: int = 1) -> None:
    for _ in range(times):
        await history.record()
        clock.advance(INTERVAL)


def cores(history: UsageHistory, name: str, namespace: str = "shop") -> list[int]:
    """Return millicores, oldest first."""
    samples = history.shown(name, namespace)["samples"]
    return [int(each["usage"]["cpu"].removesuffix("m")) for each in samples]


async def test_samples_are_those_of_the_last_thirty_minutes_oldest_first() -> None:
    source, clock = Source(), ManualClock()
    history = UsageHistory(source, MemoryStore(), clock)
    since = history.shown("a", "shop")["since"]
    for minute in range(SAMPLES + 5):
        source.used = {"a": minute}
        await recorded(history, clock)
    assert cores(history, "a") == list(range(5, SAMPLES + 5))
    assert cores(history, "dfw-0", "") == list(range(5, SAMPLES + 5))
    samples = history.shown("a", "shop")["samples"]
    assert samples[0]["usage"]["memory"] == f"{2 * 2**20}"
    assert len({each["timestamp"] for each in samples}) == SAMPLES
    assert since == history.shown("a", "shop")["since"] < samples[0]["timestamp"]


async def test_a_gap_is_left_out_and_a_pod_that_is_gone_for_the_whole_time_is_forgotten() -> None:
    source, clock = Source(), ManualClock()
    history = UsageHistory(source, MemoryStore(), clock)
    for used in ({"a": 1, "b": 1}, {"b": 2}, {"a": 3, "b": 3}):
        source.used = used
        await recorded(history, clock)
    assert cores(history, "a") == [1, 3]
    source.used = {"b": 4}
    await recorded(history, clock, SAMPLES - 2)
    assert cores(history, "a") == [3]
    await recorded(history, clock, 3)
    assert cores(history, "a") == []
    source.used = {"c": 7}  # reuses the row of the removed pod
    await recorded(history, clock)
    assert (cores(history, "a"), cores(history, "c")) == ([], [7])
    assert cores(history, "b")[-1] == 4


async def test_above_the_largest_number_of_pods_nothing_is_kept_of_them() -> None:
    source, clock = Source(), ManualClock()
    history = UsageHistory(source, MemoryStore(), clock)
    source.used = {"a": 1}
    await recorded(history, clock)
    source.used = {f"pod-{number}": 1 for number in range(MAX_OBJECTS + 1)}
    await recorded(history, clock)
    assert cores(history, "a") == cores(history, "pod-1") == []
    source.used = {"a": 2}
    await recorded(history, clock)
    assert cores(history, "a") == [2]
    assert len(cores(history, "dfw-0", "")) == 3


async def test_a_pod_takes_less_than_400_bytes() -> None:
    source, clock = Source(), ManualClock()
    history = UsageHistory(source, MemoryStore(), clock)
    source.used = {f"frontend-dfw-6c0ca80f-{number}": 1 for number in range(MAX_OBJECTS)}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await recorded(history, clock, 2)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / MAX_OBJECTS <= BYTES_PER_POD
