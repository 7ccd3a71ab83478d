"""Explains objects of Kubernetes' own kinds that create Pods: Deployments, Jobs and their like.

Their controllers are those of kube-controller-manager: while it does not run, the objects stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.conditions import is_true
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, refusal_line, yes
from tarmac.decide.explain.podowners import condition_lines
from tarmac.decide.explain.pods import pod_lines
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.snapshot import LEASES, POD_CONTROLLERS, PODS, Snapshot
from tarmac.decide.stockcontrollers import LEASE, START, leads
from tarmac.decide.verdict import Refusal

_MAX_PODS: Final = 5  # pods that are not ready and explained one by one
_BELOW: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}  # kinds whose pods belong to objects of another kind


def explainer_of(kind: str) -> Callable[[Snapshot, str], Explanation | None]:
    """Return the function that explains an object of a kind, given its key."""
    return partial(_explain, kind)


def _explain(kind: str, snapshot: Snapshot, key: str) -> Explanation | None:
    obj = POD_CONTROLLERS[kind].get(snapshot, key)
    if obj is None:
        return None
    own = obj["metadata"]
    subject = Subject(obj["apiVersion"], kind, own["namespace"], own["name"])
    lines = [*controller_lines(snapshot, kind), *condition_lines(kind, obj), *_pod_lines(snapshot, kind, obj)]
    if not lines:
        lines = [yes(reasons.OWNER_AS_WANTED, "Its controller has done what it asks for.", "pods")]
    return explanation(subject, _state(kind, obj), lines)


def controller_lines(snapshot: Snapshot, kind: str) -> list[ExplanationLine]:
    """Return a line if no kube-controller-manager leads."""
    if not snapshot.holds(LEASES.resource) or leads(LEASES.get(snapshot, LEASE), snapshot.now):
        return []
    message, change = f"No controller runs {kind}s here.", f"{START[0].upper()}{START[1:]}."
    return [refusal_line(Refusal(reasons.NO_CONTROLLER_RUNS, message, rule="controller", change=change))]


def _pod_lines(snapshot: Snapshot, kind: str, obj: JsonObject) -> Iterator[ExplanationLine]:
    """Yield lines about pods that are not ready; of many, about the first by name."""
    reads, namespace = CachedReads(snapshot), obj["metadata"]["namespace"]
    owners = {obj["metadata"]["uid"]}
    if below := _BELOW.get(kind):
        owners |= {each["metadata"]["uid"] for each in _owned(snapshot, POD_CONTROLLERS[below], namespace, owners)}
    waiting = [pod for pod in _owned(snapshot, PODS, namespace, owners) if _waits(pod)]
    waiting.sort(key=lambda pod: pod["metadata"]["name"])
    for pod in waiting[:_MAX_PODS]:
        for line in pod_lines(reads, pod):
            if line.answer != "Yes":
                yield _named(line, pod)
    if len(waiting) > _MAX_PODS:
        message = f"{len(waiting) - _MAX_PODS} more pods are not ready."
        yield refusal_line(Refusal(reasons.PODS_MISSING, message, rule="pods"))


def _named(line: ExplanationLine, pod: JsonObject) -> ExplanationLine:
    name = pod["metadata"]["name"]
    return ExplanationLine(
        line.answer, line.reason, f"{name}: {line.message}", line.rule, line.city, line.node, line.change
    )


def _waits(pod: JsonObject) -> bool:
    ended = (pod.get("status") or {}).get("phase") == "Succeeded"
    return not ended and not is_true(pod, "Ready")


def _owned(snapshot: Snapshot, source: Any, namespace: str, owners: set[str]) -> Iterator[JsonObject]:
    """Yield the objects that one of the owners controls."""
    texts = [uid.encode() for uid in owners]
    for raw in snapshot.list(source.resource, namespace):
        encoded = bytes(raw)
        # searched in the bytes first: a namespace may have ten thousand pods, and decoding takes ten times as long
        if any(text in encoded for text in texts):
            obj = source.decode(encoded)
            if any(
                each.get("controller") and each["uid"] in owners
                for each in obj["metadata"].get("ownerReferences") or ()
            ):
                yield obj


def _state(kind: str, obj: JsonObject) -> str:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if kind == "CronJob":
        last = status.get("lastScheduleTime")
        started = f"started its last Job at {last}" if last else "has started no Job yet"
        return f"{'is suspended' if spec.get('suspend') else 'is not suspended'}, and {started}"
    if kind == "Job":
        return _job_state(obj)
    if kind == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    else:
        wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    return f"has {ready} of {wanted} pods ready"


def _job_state(job: JsonObject) -> str:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    if is_true(job, "Failed"):
        return "has failed"
    if is_true(job, "Complete"):
        return "is complete"
    if spec.get("suspend"):
        return "is suspended"
    done, wanted = status.get("succeeded", 0), spec.get("completions") or spec.get("parallelism", 1)
    return f"has {done} of {wanted} completions, and {status.get('active', 0)} pods run"
