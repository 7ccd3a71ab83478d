"""Whether quotas have room for Instances that would be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import GATE_QUOTA, LABEL_CITY_CODE, LABEL_INSTANCE_INDEX, instance_name
from tarmac.base.clock import parse_rfc3339
from tarmac.base.quantity import Quantity
from tarmac.decide.children.resources import Amounts, instance_amounts
from tarmac.decide.explain.world import INSTANCE_TYPES, INSTANCES, PODS, QUOTAS, World
from tarmac.decide.plans.difference import Difference
from tarmac.decide.quota import ONE, Admission, Claim, admit, charges, quotas_of
from tarmac.decide.scheduling.amounts import shown
from tarmac.decide.scheduling.demand import requests_of

Wish = tuple[Difference, Amounts]
"""A deployment, and what each of its Instances has."""


def grant(world: World, namespace: str, wishes: Sequence[Wish]) -> list[tuple[Difference, Amounts, list[int]]]:
    """The ordinals of each deployment that quotas leave room for; the others are refused."""
    quotas = quotas_of(QUOTAS.all(world, namespace))
    if not quotas:
        return [(found, amounts, found.wanted) for found, amounts in wishes]
    going = {view.name for found, _ in wishes for view in found.going}
    made = {_name(found, ordinal) for found, _ in wishes for ordinal in found.wanted}
    others = [each for each in INSTANCES.all(world, namespace) if each.metadata.name not in {*going, *made}]
    claims = [(_claim(world, each), _is_waiting(each)) for each in others]
    wanted = [_wanted(world, found, amounts, ordinal) for found, amounts in wishes for ordinal in found.wanted]
    admission = admit(
        quotas,
        _used_by_pods(world, namespace),
        [claim for claim, waits in claims if not waits],
        [*(claim for claim, waits in claims if waits), *wanted],
    )
    return [(found, amounts, _granted(found, admission)) for found, amounts in wishes]


def _granted(found: Difference, admission: Admission) -> list[int]:
    refused = [ordinal for ordinal in found.wanted if _name(found, ordinal) in admission.refused]
    if refused:
        found.refuse(admission.refused[_name(found, refused[0])], len(refused))
    return [ordinal for ordinal in found.wanted if ordinal not in refused]


def _name(found: Difference, ordinal: int) -> str:
    return instance_name(found.deployment.metadata.name, ordinal)


def _wanted(world: World, found: Difference, amounts: Amounts, ordinal: int) -> Claim:
    return Claim(_name(found, ordinal), amounts, world.now, ordinal, found.city)


def _claim(world: World, instance: Instance) -> Claim:
    own = instance.metadata
    amounts = instance_amounts(instance.spec.runtime, lambda name: INSTANCE_TYPES.get(world, name))
    created = parse_rfc3339(own.creation_timestamp) if own.creation_timestamp else 0.0
    ordinal = int(own.labels.get(LABEL_INSTANCE_INDEX, "0"))
    return Claim(own.name, amounts or {}, created, ordinal, own.labels.get(LABEL_CITY_CODE, ""))


def _is_waiting(instance: Instance) -> bool:
    controller = instance.spec.controller
    return controller is not None and any(gate.name == GATE_QUOTA for gate in controller.scheduling_gates)


def _used_by_pods(world: World, namespace: str) -> Mapping[str, Quantity]:
    """What pods use that are not of Instances."""
    total: dict[str, Quantity] = {}
    for pod in PODS.all(world, namespace):
        owners: Iterable[Mapping[str, str]] = pod["metadata"].get("ownerReferences") or ()
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if ended or any(owner["kind"] == "Instance" for owner in owners):
            continue
        amounts = {name: Quantity.parse(shown(name, amount)) for name, amount in requests_of(pod["spec"]).items()}
        for name, amount in charges(Claim(pod["metadata"]["name"], amounts)).items():
            if not name.startswith("count/instances"):
                total[name] = total.get(name, ONE - ONE) + amount
    return total
