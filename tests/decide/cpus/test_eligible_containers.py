"""Containers with exclusive processors, their numbers, and the reuse of processors by later containers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.assigning import assign
from tarmac.decide.cpus.packing import NotEnough
from tarmac.decide.exclusivecpus import exclusive_cpus, exclusive_peak
from tests.decide.cpus.machines import siblings
from tests.decide.cpus.pods import container, pod, sidecar

FREE = siblings().cpus - CPUSet.parse("0,8")


def assigned(spec: JsonObject, free: CPUSet = FREE) -> dict[str, str]:
    return {name: str(cpus) for name, cpus in assign(siblings(), free, spec).items()}


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        (pod(container("a", "2")), {"a": 2}),
        (pod(container("a", "2000m")), {"a": 2}),
        (pod(container("a", "1500m")), {}),
        (pod(container("a", "1"), container("b", "500m")), {"a": 1}),
        (pod(container("a", "1", limit="2")), {}),  # burstable
        (pod({"name": "a"}), {}),
        (pod(container("a", "1"), {"name": "b"}), {}),
        (pod(container("a", "1"), ephemeralContainers=[{"name": "e"}]), {"a": 1}),
        (pod(container("a", "1"), init=(container("i", "3"), sidecar("s", "2"))), {"i": 3, "s": 2, "a": 1}),
    ],
)
def test_guaranteed_pods_with_whole_numbers(spec: JsonObject, counts: dict[str, int]) -> None:
    assert exclusive_cpus(spec) == counts


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_a_pod_that_asks_as_a_whole_shares(name: str) -> None:
    amount = {"cpu": "2", "memory": "64Mi"}
    whole = {"requests": amount, "limits": amount} if name == "cpu" else {"limits": {"memory": "64Mi"}}
    assert exclusive_cpus(pod(container("a", "2"), resources=whole)) == {}


@pytest.mark.parametrize(
    ("spec", "peak"),
    [
        (pod(container("a", "2"), container("b", "1")), 3),
        (pod(container("a", "2"), init=(container("i", "5"),)), 5),
        (pod(container("a", "2"), init=(sidecar("s", "1"), container("i", "5"))), 6),
        (pod(container("a", "2"), init=(container("i", "5"), sidecar("s", "4"))), 6),
        (pod(container("a", "500m")), 0),
    ],
)
def test_the_most_a_pod_has_at_one_time(spec: JsonObject, peak: int) -> None:
    assert exclusive_peak(spec) == peak


def test_containers_after_an_init_container_use_its_processors_again() -> None:
    assert assigned(pod(container("a", "2"), init=(container("i", "3"),))) == {"i": "1-2,9", "a": "1,9"}
    assert assigned(pod(container("a", "3"), init=(container("i", "1"),))) == {"i": "1", "a": "1-2,9"}


def test_a_sidecar_keeps_its_processors() -> None:
    spec = pod(container("a", "2"), init=(container("i", "2"), sidecar("s", "1")))
    assert assigned(spec) == {"i": "1,9", "s": "1", "a": "2,9"}


def test_a_pod_holds_no_more_than_it_needs_at_one_time() -> None:
    """kubelet would give the second container 1 and 9, beside a whole free socket."""
    assert assigned(pod(container("a", "2"), init=(container("i", "8"),))) == {"i": "4-7,12-15", "a": "4,12"}


def test_too_few() -> None:
    with pytest.raises(NotEnough) as caught:
        assign(siblings(), CPUSet.parse("1-2"), pod(container("a", "1"), container("b", "2")))
    assert (caught.value.requested, caught.value.available) == (2, 1)


counts = st.lists(st.integers(1, 5), max_size=3)


@st.composite
def specs(draw: st.DrawFn) -> JsonObject:
    makers = st.sampled_from((container, sidecar))
    init = tuple(draw(makers)(f"i{at}", str(count)) for at, count in enumerate(draw(counts)))
    return pod(*(container(f"c{at}", str(count)) for at, count in enumerate(draw(counts))), init=init)


@given(specs(), st.sets(st.sampled_from(sorted(FREE))))
def test_a_pod_gets_its_peak_or_nothing_and_containers_that_run_together_share_nothing(
    spec: JsonObject, some: set[int]
) -> None:
    free, peak = CPUSet(some), exclusive_peak(spec)
    try:
        given = assign(siblings(), free, spec)
    except NotEnough:
        assert peak > len(free)
        return
    held = CPUSet(cpu for cpus in given.values() for cpu in cpus)
    assert held <= free
    assert len(held) == peak
    assert {name: len(cpus) for name, cpus in given.items()} == exclusive_cpus(spec)
    lasting = [each["name"] for each in (*spec["initContainers"], *spec["containers"]) if _lasts(each)]
    together = [given[name] for name in lasting]
    assert sum(map(len, together)) == len(CPUSet(cpu for cpus in together for cpu in cpus))
    before = CPUSet()
    for each in spec["initContainers"]:
        assert not given[each["name"]] & before
        before = before | given[each["name"]] if _lasts(each) else before


def _lasts(each: JsonObject) -> bool:
    return not each["name"].startswith("i") or each.get("restartPolicy") == "Always"
