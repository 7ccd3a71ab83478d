"""ResourceQuota against Instances: the number that fits, their order, and changes that help."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.quantity import Quantity
from tarmac.decide.quota import Claim, Quota, admit, charges, quotas_of


def amounts(**values: str) -> dict[str, Quantity]:
    """Return resources by name."""
    return {name: Quantity.parse(value) for name, value in values.items()}


def claim(name: str, created: float = 0, ordinal: int = 0, **resources: str) -> Claim:
    """Return an Instance of a size."""
    return Claim(name, amounts(**(resources or {"cpu": "2", "memory": "2Gi"})), created, ordinal, "DFW")


def quota(**hard: str) -> Quota:
    """Return a quota named team."""
    return Quota("team", {key.replace("__", "."): Quantity.parse(value) for key, value in hard.items()})


def test_the_oldest_goes_first_then_the_lowest_ordinal() -> None:
    """Seven of ten, as in the RFC's example."""
    waiting = [claim(f"a-{ordinal}", 5, ordinal) for ordinal in (2, 10, 1)] + [claim("old", 1)]
    admission = admit([quota(pods="3")], {}, [], waiting)
    assert admission.granted == ("old", "a-1", "a-2")
    assert list(admission.refused) == ["a-10"]


def test_a_refusal_names_the_city_and_every_limit_to_raise() -> None:
    """The change is exact: with it, the Instance fits."""
    limits = [quota(cpu="3", memory="3Gi")]
    refusal = admit(limits, amounts(cpu="1"), [claim("held")], [claim("new")]).refused["new"]
    assert refusal.reason == "QuotaExhausted"
    assert refusal.where == "DFW"
    assert refusal.message == "quota team is exhausted in DFW: cpu 2 wanted, 3 of 3 used"
    assert refusal.change == (
        "Raise cpu of ResourceQuota team to 5 and memory of ResourceQuota team to 4Gi, or scale something else down."
    )


def test_a_large_instance_does_not_hold_up_a_small_one() -> None:
    """It is skipped and tried again next time."""
    waiting = [claim("large", 1, cpu="8"), claim("small", 2, cpu="1")]
    admission = admit([quota(cpu="4")], {}, [], waiting)
    assert admission.granted == ("small",)
    assert list(admission.refused) == ["large"]


def test_every_quota_of_the_namespace_must_have_room() -> None:
    """The tightest decides."""
    tight = Quota("tight", {"count/instances.compute.datumapis.com": Quantity.of(1)})
    admission = admit([quota(pods="9"), tight], {}, [], [claim("a"), claim("b")])
    assert admission.granted == ("a",)
    assert "ResourceQuota tight to 2" in admission.refused["b"].change


def test_without_quota_everything_fits() -> None:
    """Resources that no quota names are unlimited."""
    assert admit([quota(cpu="2")], {}, [], [claim("a", memory="9Ti")]).granted == ("a",)


def test_an_instance_is_counted_under_every_name_a_quota_may_use() -> None:
    """Plain names are those of requests; devices have only the long one."""
    resources = {"cpu": Quantity.of(2), "datumcloud.com/nvidia-tesla-a100": Quantity.of(1)}
    assert {name: str(amount) for name, amount in charges(Claim("a", resources)).items()} == {
        "pods": "1",
        "count/pods": "1",
        "count/instances.compute.datumapis.com": "1",
        "cpu": "2",
        "requests.cpu": "2",
        "requests.datumcloud.com/nvidia-tesla-a100": "1",
    }


def test_quotas_for_other_pods_do_not_concern_instances() -> None:
    """Scopes that an Instance's Pod cannot be in."""

    def obj(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"hard": {"pods": "1"}, **spec}}

    priority = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
    objects = [
        obj("b", scopes=["NotBestEffort"]),
        obj("best-effort", scopes=["BestEffort"]),
        obj("jobs", scopes=["Terminating"]),
        obj("priority", scopeSelector=priority),
        obj("a"),
    ]
    assert [quota.name for quota in quotas_of(objects)] == ["a", "b"]


sizes = st.builds(
    lambda cpu, memory, created: (cpu, memory, created), st.integers(1, 4000), st.integers(1, 8), st.integers(0, 3)
)


@given(st.lists(sizes, max_size=12), st.integers(0, 9000), st.integers(0, 20), st.integers(0, 5), st.randoms())
def test_a_quota_is_never_exceeded_and_nothing_is_left_that_fits(
    wanted: list[tuple[int, int, int]], cpu: int, memory: int, held: int, shuffler: Any
) -> None:
    """Safety, maximality, independence of order, and a change that is exactly enough."""
    claims = [
        claim(f"i-{index}", created, index, cpu=f"{milli}m", memory=f"{gib}Gi")
        for index, (milli, gib, created) in enumerate(wanted)
    ]
    holding, waiting = claims[:held], claims[held:]
    limit = quota(cpu=f"{cpu}m", memory=f"{memory}Gi")
    admission = admit([limit], {}, holding, waiting)
    shuffled = list(waiting)
    shuffler.shuffle(shuffled)
    assert admit([limit], {}, holding, shuffled) == admission
    assert {*admission.granted, *admission.refused} == {claim.name for claim in waiting}
    going = [claim for claim in waiting if claim.name in admission.granted]
    for resource in ("cpu", "memory"):
        before = sum(claim.resources[resource].nanos for claim in holding)
        after = before + sum(claim.resources[resource].nanos for claim in going)
        assert after <= max(limit.hard[resource].nanos, before)
    assert admit([limit], {}, [*holding, *going], [c for c in waiting if c.name in admission.refused]).granted == ()
    for name, refusal in admission.refused.items():
        assert refusal.reason == "QuotaExhausted"
        assert "Raise " in refusal.change, name
