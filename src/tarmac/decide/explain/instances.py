"""Why an instance is not ready: the gates before it, then its pod."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.compute.answers import Explanation, Line, Subject
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, told, yes
from tarmac.decide.explain.pods import pod_lines
from tarmac.decide.explain.stage import Stages
from tarmac.decide.explain.world import INSTANCES, PODS, World
from tarmac.decide.verdict import Refusal


def explain_instance(world: World, key: str) -> Explanation | None:
    """The explanation of an Instance; None when there is none of that name."""
    instance = INSTANCES.get(world, key)
    if instance is None:
        return None
    own = instance.metadata
    ready = _condition(instance, "Ready")
    if own.deletion_timestamp is not None:
        state = "is being deleted"
    elif ready is not None and ready.status == "True":
        state = "is ready"
    else:
        state = "is not ready"
    subject = Subject(API_VERSION, "Instance", own.namespace, own.name)
    return explanation(subject, state, instance_lines(world, instance, Stages(world)))


def instance_lines(world: World, instance: Instance, stages: Stages) -> list[Line]:
    """What stands between an Instance and being ready."""
    own, city = instance.metadata, instance.metadata.labels.get(LABEL_CITY_CODE, "")
    ready = _condition(instance, "Ready")
    if own.deletion_timestamp is not None:
        return [told(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"), city)]
    if ready is not None and ready.status == "True":
        node = instance.status.node_name if instance.status else ""
        return [yes(ready.reason, ready.message, "ready", city, node)]
    gates = [gate.name for gate in instance.spec.controller.scheduling_gates] if instance.spec.controller else []
    if gates:
        return list(_gated(instance, gates, city))
    pod = PODS.get(world, f"{own.namespace}/{own.name}")
    if pod is None:
        return [_said(ready, city)]
    lines = pod_lines(world, pod, stages)
    return lines if any(line.answer != "Yes" for line in lines) else [*lines, _said(ready, city)]


def _gated(instance: Instance, gates: Iterable[str], city: str) -> Iterable[Line]:
    """A line for each gate: what its keeper has said, or that nothing was said yet."""
    keepers = {"Quota": "QuotaGranted"}
    ready = _condition(instance, "Ready")
    for gate in gates:
        said = _condition(instance, keepers[gate]) if gate in keepers else ready
        if said is not None and said.status == "False" and said.reason != reasons.SCHEDULING_GATES_PRESENT:
            yield told(Refusal(said.reason, said.message, rule=gate.lower()), city)
        else:
            message = f"The gate {gate} is still closed."
            yield told(Refusal(reasons.SCHEDULING_GATES_PRESENT, message, rule=gate.lower()), city)


def _said(ready: Condition | None, city: str) -> Line:
    """What its controller has said last."""
    if ready is None or ready.status == "True":
        return told(Refusal(reasons.PENDING, "Nobody has looked at it yet.", rule="ready"), city)
    return told(Refusal(ready.reason, ready.message, rule="ready"), city)


def _condition(instance: Instance, type: str) -> Condition | None:
    conditions = instance.status.conditions if instance.status else []
    return next((each for each in conditions if each.type == type), None)
