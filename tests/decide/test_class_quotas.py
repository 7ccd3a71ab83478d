"""Class quotas against Instances: allowed classes of a namespace, their places, and changes that help."""

from __future__ import annotations

from typing import Any

from tarmac.base.quantity import Quantity
from tarmac.decide.quota import Claim, Quota, admit, quotas_of, used_by

SLOW, FAST = ("blockio", "slow"), ("blockio", "fast")


def quota(name: str = "team", level: str = "containerClassResources", **classes: int | None) -> Quota:
    listed = [{"name": each} | ({} if most is None else {"capacity": most}) for each, most in classes.items()]
    spec = {level: [{"name": "blockio", "classes": listed}]}
    return quotas_of([{"metadata": {"name": name}, "spec": spec}])[0]


def claim(name: str, *places: tuple[str, str], count: int = 1) -> Claim:
    return Claim(name, {"cpu": Quantity.of(1)}, city="DFW", classes=dict.fromkeys(places, count))


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}], **spec}, "status": {}}


def test_places_are_counted_over_all_instances() -> None:
    admission = admit([quota(slow=2)], {}, [claim("held", SLOW)], [claim("a", SLOW), claim("b", SLOW), claim("c")])
    assert admission.granted == ("a", "c")
    told = admission.refused["b"]
    assert told.reason == "QuotaExhausted"
    assert told.message == "quota team is exhausted in DFW: class blockio/slow 1 wanted, 2 of 2 used"
    assert told.change == "Raise class blockio/slow of ResourceQuota team to 3, or scale something else down."


def test_a_class_that_is_not_listed_may_not_be_used_and_the_quota_is_named() -> None:
    admission = admit([quota(slow=None), quota("other")], {}, [], [claim("a", FAST), claim("b", ("rdt", "gold"))])
    assert admission.granted == ("b",), "a type that no quota lists is unlimited"
    told = admission.refused["a"]
    assert told.reason == "QuotaExhausted"
    assert told.message == "quota team does not allow class blockio/fast in DFW; allowed: slow"
    assert told.change == (
        "Ask for slow, or allow class blockio/fast in ResourceQuota team and class blockio/fast in ResourceQuota other."
    )


def test_a_capacity_of_none_at_all_is_a_limit() -> None:
    assert admit([quota(slow=0)], {}, [], [claim("a", SLOW)]).granted == ()
    assert admit([quota(slow=None)], {}, [], [claim("a", SLOW, count=900)]).granted == ("a",)


def test_pods_of_no_instance_count_as_the_quota_counts_them() -> None:
    """A type for pods is taken once by a pod, one for containers once by each."""
    asking = pod(resources={"classes": {"blockio": "slow"}})
    by_containers, by_pods = quota(slow=2), quota(level="podClassResources", slow=2)
    assert not admit([by_containers], used_by([asking]), [], [claim("a", SLOW)]).granted
    assert admit([by_pods], used_by([asking]), [], [claim("a", SLOW)]).granted == ("a",)


def test_with_the_gate_off_class_quotas_do_not_bind() -> None:
    spec = {"containerClassResources": [{"name": "blockio", "classes": []}]}
    off = quotas_of([{"metadata": {"name": "team"}, "spec": spec}], classes=False)
    assert admit(off, {}, [], [claim("a", SLOW)]).granted == ("a",)
