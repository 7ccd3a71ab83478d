"""Few fields of an existing Pod may change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tarmac.api.kubernetes.core.pods import subresources
from tarmac.api.kubernetes.strategies import strategy_for
from tarmac.base.fielderrors import FieldErrors
from tests.kubernetes.rules import Object, complete, container, pod, updated

ONLY = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"


@pytest.mark.parametrize(
    "changes",
    [
        {"containers": [{"name": "c", "image": "nginx:2"}]},
        {"activeDeadlineSeconds": 5},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
    ],
)
def test_allowed_changes(changes: dict[str, Any]) -> None:
    old = pod(container(imagePullPolicy="Always"))
    if "containers" in changes:
        changes = {"containers": [container(imagePullPolicy="Always", image="nginx:2")]}
    assert updated("Pod", old, {"spec": changes})[1] == []


@pytest.mark.parametrize("changes", [{"hostNetwork": True}, {"nodeName": "n"}, {"restartPolicy": "Never"}])
def test_everything_else_is_immutable(changes: dict[str, Any]) -> None:
    (error,) = updated("Pod", pod(), {"spec": changes})[1]
    assert error.startswith(ONLY)
    assert f"spec.{next(iter(changes))}" in error, "the message names the field"


def test_containers_cannot_be_added() -> None:
    new = {"containers": [container(), container(name="d")]}
    assert updated("Pod", pod(), {"spec": new})[1] == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_a_deadline_only_comes_closer() -> None:
    old = pod(activeDeadlineSeconds=5)
    assert updated("Pod", old, {"spec": {"activeDeadlineSeconds": 4}})[1] == []
    assert updated("Pod", old, {"spec": {"activeDeadlineSeconds": 9}})[1] == [
        "spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value"
    ]


def test_tolerations_can_be_added_and_not_changed() -> None:
    old = pod(tolerations=[{"key": "a", "operator": "Exists"}])
    errors = updated("Pod", old, {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}})[1]
    assert errors == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_a_gated_pod_can_still_be_narrowed_down() -> None:
    old = pod(schedulingGates=[{"name": "a/b"}], nodeSelector={"x": "y"})
    assert updated("Pod", old, {"spec": {"nodeSelector": {"disk": "ssd"}}})[1] == []
    assert updated("Pod", old, {"spec": {"schedulingGates": None}})[1] == []
    assert updated("Pod", old, {"spec": {"nodeSelector": {"x": "z"}}})[1] == [
        'spec.nodeSelector: Invalid value: {"x":"z"}: only additions to spec.nodeSelector are allowed '
        "(no mutations or deletions)"
    ]
    assert updated("Pod", old, {"spec": {"schedulingGates": [{"name": "a/c"}]}})[1] == [
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a/c'"
    ]


def test_an_update_keeps_the_status() -> None:
    new, _ = updated("Pod", pod(), {"status": {"phase": "Running"}})
    assert new["status"]["phase"] == "Pending"


def _through(prepare: Any, validate: Any, old: Object, changes: Object) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(changes)
    prepare(new, old)
    errors = FieldErrors()
    validate(new, old, errors)
    return [str(error) for error in errors]


def _resize(old: Object, resources: Object) -> list[str]:
    containers = [{**copy.deepcopy(old["spec"]["containers"][0]), "resources": resources}]
    return _through(subresources.prepare_resize, subresources.validate_resize, old, {"containers": containers})


def test_resize_changes_cpu_and_memory_within_the_class_of_service() -> None:
    old = complete("Pod", pod(container(resources={"requests": {"cpu": "1"}})))
    assert _resize(old, {"requests": {"cpu": "2"}}) == []
    assert _resize(old, {"requests": {}}) == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
    ]
    extended = {"requests": {"cpu": "1", "a.b/c": "1"}, "limits": {"a.b/c": "1"}}
    assert _resize(old, extended) == ["spec: Forbidden: only cpu and memory resources are mutable"]


def test_ephemeral_containers_are_added_and_never_changed() -> None:
    old = complete("Pod", pod())
    debug = {"name": "e", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    doors = (subresources.prepare_ephemeral_update, subresources.validate_ephemeral_update)
    assert _through(*doors, old, {"ephemeralContainers": [debug]}) == []
    with_debug = copy.deepcopy(old)
    with_debug["spec"]["ephemeralContainers"] = [debug]
    (error,) = _through(*doors, with_debug, {"ephemeralContainers": [{**debug, "image": "y"}]})
    assert error.startswith('spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed')
    (error,) = _through(*doors, with_debug, {"ephemeralContainers": []})
    assert 'existing ephemeral containers "e" may not be removed' in error


def test_a_finished_container_does_not_come_back_when_it_should_not() -> None:
    old = complete("Pod", pod(restartPolicy="Never"))
    ended = {"terminated": {"exitCode": 0}}
    old["status"]["containerStatuses"] = [{"name": "c", "state": ended}]
    new = copy.deepcopy(old)
    new["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    errors = FieldErrors()
    strategy_for("", "Pod").validate_status_update(new, old, errors)
    assert [str(error) for error in errors] == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_the_grace_period_of_a_deletion() -> None:
    strategy = strategy_for("", "Pod")
    unbound, bound = complete("Pod", pod()), complete("Pod", pod(nodeName="n"))
    assert strategy.grace_period(unbound, None) == 0, "no node runs it"
    assert strategy.grace_period(bound, None) == 30
    assert strategy.grace_period(bound, 5) == 5
    assert strategy.grace_period(bound, -1) == 1
    bound["status"]["phase"] = "Succeeded"
    assert strategy.grace_period(bound, None) == 0
