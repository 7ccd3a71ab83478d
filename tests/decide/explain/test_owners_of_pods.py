"""Deployments, Jobs and similar kinds are explained by their controller, their conditions and their pods."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import LEASES, POD_CONTROLLERS, PODS

from .world import NOW, Scene

LEASE = {"metadata": {"namespace": "kube-system", "name": "kube-controller-manager"}}
VERSIONS = {"apps": "apps/v1", "batch": "batch/v1", "core": "v1"}


def add(scene: Scene, kind: str, name: str, owner: JsonObject | None = None, **fields: Any) -> JsonObject:
    source = POD_CONTROLLERS[kind]
    obj: JsonObject = {
        "apiVersion": VERSIONS[source.resource.partition("/")[0]],
        "kind": kind,
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-of-{kind}-{name}", **owned_by(owner)},
        **fields,
    }
    scene.put(source.resource, obj)
    return obj


def owned_by(owner: JsonObject | None) -> JsonObject:
    if owner is None:
        return {}
    own = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": own["name"], "uid": own["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}]}


def give(scene: Scene, pod: str, owner: JsonObject) -> None:
    known = PODS.get(scene.world, f"default/{pod}") or {}
    known["metadata"] |= owned_by(owner)
    scene.put(PODS.resource, known)


def why(scene: Scene, kind: str, name: str) -> Explanation:
    resource = PODS.resource if kind == "Pod" else POD_CONTROLLERS[kind].resource
    found = EXPLAINERS[resource](scene.world, f"default/{name}")
    assert found is not None
    return found


@pytest.fixture
def scene() -> Scene:
    """Return a city, and a kube-controller-manager that leads."""
    made = Scene()
    made.place("LHR", nodes=1)
    made.put(LEASES.resource, {**LEASE, "spec": {"renewTime": rfc3339(NOW - 5)}})
    return made


@pytest.mark.parametrize("age", [None, 61.0])
def test_without_a_controller_that_leads_it_says_how_to_start_one(scene: Scene, age: float | None) -> None:
    spec = {} if age is None else {"renewTime": rfc3339(NOW - age)}
    scene.put(LEASES.resource, {**LEASE, "spec": spec})
    add(scene, "Deployment", "web", spec={"replicas": 2})
    found = why(scene, "Deployment", "web")
    assert found.sentence == "Deployment default/web has 0 of 2 pods ready: No controller runs Deployments here."
    assert found.change.startswith("Start `tarmac up` with --with-kubernetes-controllers")
    assert [line.reason for line in found.verdicts] == [reasons.NO_CONTROLLER_RUNS]


def test_pods_of_a_deployment_are_those_of_its_replica_sets(scene: Scene) -> None:
    web = add(scene, "Deployment", "web", spec={"replicas": 2}, status={"readyReplicas": 1})
    ours = add(scene, "ReplicaSet", "web-1", web)
    other = add(scene, "ReplicaSet", "db-1", add(scene, "Deployment", "db"))
    scene.pod("web-1-a", cpu="64")
    give(scene, "web-1-a", ours)
    scene.pod("db-1-a", cpu="64")
    give(scene, "db-1-a", other)
    found = why(scene, "Deployment", "web")
    assert found.sentence.startswith("Deployment default/web has 1 of 2 pods ready: web-1-a: ")
    assert "CPU" in found.change
    assert all(line.message.startswith("web-1-a: ") for line in found.verdicts)


def test_a_condition_that_reports_a_failure_is_told_in_its_words(scene: Scene) -> None:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": 'pods "web-1" is forbidden: exceeded quota',
    }
    good = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
    add(scene, "Deployment", "web", status={"conditions": [good, failure]})
    found = why(scene, "Deployment", "web")
    (line,) = found.verdicts
    assert line.reason == reasons.OWNER_FAILED
    assert line.message == (
        'Deployment web reports ReplicaFailure=True (FailedCreate): pods "web-1" is forbidden: exceeded quota.'
    )


@pytest.mark.parametrize(
    ("kind", "spec", "status", "said"),
    [
        ("StatefulSet", {"replicas": 3}, {"readyReplicas": 3}, "has 3 of 3 pods ready."),
        ("DaemonSet", {}, {"desiredNumberScheduled": 4, "numberReady": 4}, "has 4 of 4 pods ready."),
        ("Job", {"completions": 3}, {"succeeded": 1, "active": 1}, "has 1 of 3 completions, and 1 pods run."),
        ("Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}, "is complete."),
        ("Job", {"suspend": True}, {}, "is suspended."),
        ("CronJob", {"suspend": True}, {}, "is suspended, and has started no Job yet."),
        (
            "CronJob",
            {},
            {"lastScheduleTime": "2027-01-01T00:00:00Z"},
            "is not suspended, and started its last Job at 2027-01-01T00:00:00Z.",
        ),
        ("ReplicationController", {"replicas": 0}, {}, "has 0 of 0 pods ready."),
    ],
)
def test_every_kind_tells_its_state(scene: Scene, kind: str, spec: JsonObject, status: JsonObject, said: str) -> None:
    add(scene, kind, "a", spec=spec, status=status)
    assert why(scene, kind, "a").sentence == f"{kind} default/a {said}"


def test_a_failed_job_tells_why(scene: Scene) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached it"}
    add(scene, "Job", "a", status={"conditions": [failed]})
    assert why(scene, "Job", "a").sentence == (
        "Job default/a has failed: Job a reports Failed=True (BackoffLimitExceeded): Job has reached it."
    )


def test_a_pod_names_its_owners_and_what_these_report(scene: Scene) -> None:
    failure = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}
    web = add(scene, "Deployment", "web", status={"conditions": [failure]})
    scene.pod("web-1-a", node="lhr-0")
    give(scene, "web-1-a", add(scene, "ReplicaSet", "web-1", web))
    messages = [line.message for line in why(scene, "Pod", "web-1-a").verdicts]
    assert "It belongs to ReplicaSet web-1 of Deployment web." in messages
    assert "Deployment web reports Progressing=False (ProgressDeadlineExceeded): late." in messages


def test_an_owner_made_again_under_its_name_is_not_named(scene: Scene) -> None:
    gone = add(scene, "ReplicaSet", "web-1")
    scene.pod("web-1-a", node="lhr-0")
    give(scene, "web-1-a", {**gone, "metadata": {**gone["metadata"], "uid": "of-the-last-one"}})
    assert not any("belongs" in line.message for line in why(scene, "Pod", "web-1-a").verdicts)


def test_of_many_pods_the_first_are_explained_and_the_others_counted(scene: Scene) -> None:
    owner = add(scene, "ReplicaSet", "web", spec={"replicas": 9})
    for number in range(9):
        scene.pod(f"web-{number}", cpu="64")
        give(scene, f"web-{number}", owner)
    found = why(scene, "ReplicaSet", "web")
    assert {line.message.partition(":")[0] for line in found.verdicts if ":" in line.message} == {
        f"web-{number}" for number in range(5)
    }
    assert found.verdicts[-1].message == "4 more pods are not ready."
