"""Kinds that kube-controller-manager runs: Deployments, Jobs, autoscalers and more, without the controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.shared import TABLE, meta
from tests.differential.steps import MERGE_PATCH, Json, Step, apply, create, delete, feature, get, patch, put

_APPS = "/apis/apps/v1/namespaces/$ns"
_BATCH = "/apis/batch/v1/namespaces/$ns"
_AUTOSCALERS = "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers"
_NETWORKING = "/apis/networking.k8s.io/v1/namespaces/$ns"
_CONTROLLERS = "/api/v1/namespaces/$ns/replicationcontrollers"
_TEMPLATES = "/api/v1/namespaces/$ns/podtemplates"
_POD: Json = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
_TEMPLATE: Json = {"metadata": {"labels": {"app": "a"}}, "spec": _POD}
_SELECTOR: Json = {"matchLabels": {"app": "a"}}


def _of(kind: str, version: str = "apps/v1", **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": meta("a"), "spec": spec}


def _replicated(kind: str, **spec: Any) -> Json:
    return _of(kind, **{"selector": _SELECTOR, "template": _TEMPLATE, **spec})


def _job(**spec: Any) -> Json:
    return _of("Job", "batch/v1", **{"template": {"spec": {**_POD, "restartPolicy": "Never"}}, **spec})


def _cron(**spec: Any) -> Json:
    job = {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}}
    return _of("CronJob", "batch/v1", **{"schedule": "*/5 * * * *", "jobTemplate": job, **spec})


def _autoscaler(**spec: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    return _of("HorizontalPodAutoscaler", "autoscaling/v2", **{"scaleTargetRef": target, "maxReplicas": 3, **spec})


def _ingress(**spec: Any) -> Json:
    return _of("Ingress", "networking.k8s.io/v1", **spec)


def _life(path: str, body: Json, change: Json) -> tuple[Step, ...]:
    """Create, show, change, write the status and delete."""
    return (
        create(path, body),
        get(f"{path}/a").accepting(TABLE),
        patch(MERGE_PATCH, f"{path}/a", change),
        patch(MERGE_PATCH, f"{path}/a/status", {"spec": {"paused": True}, "status": {"observedGeneration": 1}}),
        get(f"{path}/a"),
        delete(f"{path}/a"),
    )


def _written(path: str, make: Callable[..., Json], **specs: Json) -> dict[str, Step]:
    return {name: create(path, make(**spec)) for name, spec in specs.items()}


_BACKEND = {"service": {"name": "s", "port": {"number": 80}}}

CASES = feature(
    "pod controllers",
    a_deployment=_life(f"{_APPS}/deployments", _replicated("Deployment"), {"spec": {"replicas": 3}}),
    a_replica_set=_life(f"{_APPS}/replicasets", _replicated("ReplicaSet"), {"spec": {"replicas": 3}}),
    a_stateful_set=_life(f"{_APPS}/statefulsets", _replicated("StatefulSet"), {"spec": {"replicas": 3}}),
    a_daemon_set=_life(f"{_APPS}/daemonsets", _replicated("DaemonSet"), {"spec": {"minReadySeconds": 3}}),
    a_replication_controller=_life(
        _CONTROLLERS, _of("ReplicationController", "v1", template=_TEMPLATE), {"spec": {"replicas": 2}}
    ),
    a_job=_life(f"{_BATCH}/jobs", _job(), {"spec": {"parallelism": 2}}),
    a_cron_job=_life(f"{_BATCH}/cronjobs", _cron(), {"spec": {"suspend": True}}),
    an_autoscaler=_life(_AUTOSCALERS, _autoscaler(), {"spec": {"maxReplicas": 5}}),
    an_ingress=_life(
        f"{_NETWORKING}/ingresses", _ingress(defaultBackend=_BACKEND), {"spec": {"ingressClassName": "x"}}
    ),
    a_pod_template=(
        create(_TEMPLATES, {"metadata": meta("a"), "template": _TEMPLATE}),
        get(_TEMPLATES).accepting(TABLE),
        patch(MERGE_PATCH, f"{_TEMPLATES}/a", {"template": {"metadata": {"labels": {"b": "c"}}}}),
    ),
    nothing_in_a_deployment=create(f"{_APPS}/deployments", {"metadata": meta("a")}),
    nothing_in_a_replica_set=create(f"{_APPS}/replicasets", {"metadata": meta("a")}),
    nothing_in_a_stateful_set=create(f"{_APPS}/statefulsets", {"metadata": meta("a")}),
    nothing_in_a_daemon_set=create(f"{_APPS}/daemonsets", {"metadata": meta("a")}),
    nothing_in_a_controller=create(_CONTROLLERS, {"metadata": meta("a")}),
    nothing_in_a_job=create(f"{_BATCH}/jobs", {"metadata": meta("a")}),
    nothing_in_a_cron_job=create(f"{_BATCH}/cronjobs", {"metadata": meta("a")}),
    nothing_in_an_autoscaler=create(_AUTOSCALERS, {"metadata": meta("a")}),
    nothing_in_an_ingress=create(f"{_NETWORKING}/ingresses", {"metadata": meta("a")}),
    **_written(
        f"{_APPS}/deployments",
        lambda **spec: _replicated("Deployment", **spec),
        a_deployment_below_nothing={"replicas": -1, "minReadySeconds": -2, "revisionHistoryLimit": -3},
        a_deployment_of_other_pods={"selector": {"matchLabels": {"app": "b"}}},
        a_deployment_of_any_pods={"selector": {}},
        a_deployment_by_a_wrong_operator={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        a_deployment_recreated={"strategy": {"type": "Recreate"}},
        a_deployment_recreated_in_turn={"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        a_deployment_of_an_unknown_strategy={"strategy": {"type": "Sometimes"}},
        a_deployment_of_odd_shares={"strategy": {"rollingUpdate": {"maxSurge": "many", "maxUnavailable": "130%"}}},
        a_deployment_that_never_moves={"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}},
        a_deployment_out_of_time={"progressDeadlineSeconds": 5, "minReadySeconds": 5},
        a_deployment_of_ending_pods={"template": {**_TEMPLATE, "spec": {**_POD, "restartPolicy": "Never"}}},
        a_deployment_with_a_deadline={"template": {**_TEMPLATE, "spec": {**_POD, "activeDeadlineSeconds": 5}}},
        a_deployment_of_no_containers={"template": {**_TEMPLATE, "spec": {"containers": []}}},
        a_deployment_with_wrong_labels={
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a", "b": "no label!"}}, "spec": _POD},
        },
    ),
    a_deployment_whose_selector_changes=(
        create(f"{_APPS}/deployments", _replicated("Deployment")),
        put(
            f"{_APPS}/deployments/a",
            _replicated(
                "Deployment",
                selector={"matchLabels": {"b": "c"}},
                template={"metadata": {"labels": {"b": "c"}}, "spec": _POD},
            ),
        ),
    ),
    a_deployment_whose_annotations_change=(
        create(f"{_APPS}/deployments", _replicated("Deployment")),
        patch(MERGE_PATCH, f"{_APPS}/deployments/a", {"metadata": {"annotations": {"a": "b"}}}),
        patch(MERGE_PATCH, f"{_APPS}/deployments/a", {"metadata": {"labels": {"a": "b"}}}),
    ),
    a_deployment_scaled=(
        create(f"{_APPS}/deployments", _replicated("Deployment")),
        get(f"{_APPS}/deployments/a/scale"),
        patch(MERGE_PATCH, f"{_APPS}/deployments/a/scale", {"spec": {"replicas": 7}}),
        get(f"{_APPS}/deployments/a"),
    ),
    a_controller_scaled=(
        create(_CONTROLLERS, _of("ReplicationController", "v1", template=_TEMPLATE)),
        get(f"{_CONTROLLERS}/a/scale"),
    ),
    a_deployment_applied=(
        apply(f"{_APPS}/deployments/a", _replicated("Deployment", replicas=2)),
        apply(f"{_APPS}/deployments/a", _replicated("Deployment", replicas=3), manager="other"),
    ),
    **_written(
        f"{_APPS}/statefulsets",
        lambda **spec: _replicated("StatefulSet", **spec),
        a_stateful_set_with_disks={
            "serviceName": "s",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
        a_stateful_set_that_mounts_its_disks={
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "hostname": "Invalid",
                    "containers": [{**_POD["containers"][0], "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
                    "volumes": [{"name": "d"}, {"name": "e", "emptyDir": {}}],
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
        a_stateful_set_in_no_order={"podManagementPolicy": "Random"},
        a_stateful_set_updated_by_hand={"updateStrategy": {"type": "OnDelete"}},
        a_stateful_set_updated_by_nobody={"updateStrategy": {"type": "Never"}},
        a_stateful_set_below_nothing={
            "ordinals": {"start": -1},
            "updateStrategy": {"rollingUpdate": {"partition": -1}},
        },
        a_stateful_set_that_drops_disks={"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Drop"}},
    ),
    a_stateful_set_whose_service_changes=(
        create(f"{_APPS}/statefulsets", _replicated("StatefulSet", serviceName="s")),
        patch(MERGE_PATCH, f"{_APPS}/statefulsets/a", {"spec": {"serviceName": "t"}}),
        patch(MERGE_PATCH, f"{_APPS}/statefulsets/a", {"spec": {"ordinals": {"start": 2}, "minReadySeconds": 1}}),
    ),
    **_written(
        f"{_APPS}/daemonsets",
        lambda **spec: _replicated("DaemonSet", **spec),
        a_daemon_set_by_hand={"updateStrategy": {"type": "OnDelete"}},
        a_daemon_set_of_an_unknown_strategy={"updateStrategy": {"type": "Never"}},
        a_daemon_set_that_surges_too={"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
        a_daemon_set_that_never_moves={"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
    ),
    a_daemon_set_whose_template_changes=(
        create(f"{_APPS}/daemonsets", _replicated("DaemonSet")),
        patch(MERGE_PATCH, f"{_APPS}/daemonsets/a", {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}),
    ),
    **_written(
        f"{_BATCH}/jobs",
        _job,
        an_indexed_job={"completionMode": "Indexed", "completions": 2, "parallelism": 2},
        an_indexed_job_of_no_end={"completionMode": "Indexed"},
        a_job_below_nothing={"parallelism": -1, "completions": -1, "backoffLimit": -1, "ttlSecondsAfterFinished": -1},
        a_job_of_an_unknown_mode={"completionMode": "Odd"},
        a_job_with_a_selector_of_its_own={"selector": _SELECTOR},
        a_job_by_hand={
            "manualSelector": True,
            "selector": _SELECTOR,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {**_POD, "restartPolicy": "OnFailure"}},
        },
        a_job_by_hand_without_selector={"manualSelector": True},
        a_job_with_labels={
            "template": {"metadata": {"labels": {"x": "y"}}, "spec": {**_POD, "restartPolicy": "Never"}}
        },
        a_suspended_job={"suspend": True},
    ),
    a_job_whose_template_changes=(
        create(f"{_BATCH}/jobs", _job()),
        patch(MERGE_PATCH, f"{_BATCH}/jobs/a", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
        patch(MERGE_PATCH, f"{_BATCH}/jobs/a", {"spec": {"completions": 4}}),
        patch(MERGE_PATCH, f"{_BATCH}/jobs/a", {"spec": {"completionMode": "Indexed"}}),
    ),
    **_written(
        f"{_BATCH}/cronjobs",
        _cron,
        a_cron_job_every_day={"schedule": "@daily", "timeZone": "Europe/Berlin"},
        a_cron_job_of_no_zone={"timeZone": "Europe/Atlantis"},
        a_cron_job_of_the_local_zone={"timeZone": "Local"},
        a_cron_job_of_an_empty_zone={"timeZone": ""},
        a_cron_job_with_a_zone_in_its_schedule={"schedule": "TZ=UTC 0 * * * *"},
        a_cron_job_at_no_time={"schedule": ""},
        a_cron_job_at_a_wrong_minute={"schedule": "61 * * * *"},
        a_cron_job_at_a_wrong_name={"schedule": "* * * foo *"},
        a_cron_job_by_no_step={"schedule": "*/0 * * * *"},
        a_cron_job_backwards={"schedule": "5-1 * * * *"},
        a_cron_job_of_an_unknown_descriptor={"schedule": "@often"},
        a_cron_job_of_an_unknown_policy={"concurrencyPolicy": "Maybe"},
        a_cron_job_below_nothing={"startingDeadlineSeconds": -1, "failedJobsHistoryLimit": -1},
    ),
    **_written(
        _AUTOSCALERS,
        _autoscaler,
        an_autoscaler_of_nothing={"scaleTargetRef": {"kind": "", "name": ""}},
        an_autoscaler_without_room={"minReplicas": 5},
        an_autoscaler_to_zero={"minReplicas": 0, "maxReplicas": 0},
        an_autoscaler_by_memory={
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
                }
            ]
        },
        an_autoscaler_of_an_unknown_metric={"metrics": [{"type": "Moon"}]},
        an_autoscaler_without_source={"metrics": [{"type": "Pods"}]},
        an_autoscaler_without_target={"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {}}}]},
        an_autoscaler_that_waits={"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}},
        an_autoscaler_that_waits_too_long={"behavior": {"scaleUp": {"stabilizationWindowSeconds": 4000}}},
    ),
    **_written(
        f"{_NETWORKING}/ingresses",
        _ingress,
        an_ingress_to_a_host={
            "ingressClassName": "x",
            "tls": [{"hosts": ["a.example"], "secretName": "s"}],
            "rules": [
                {"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}}
            ],
        },
        an_ingress_to_an_address={"rules": [{"host": "10.0.0.1"}]},
        an_ingress_to_any_host={"rules": [{"host": "*.a.example"}]},
        an_ingress_to_a_wrong_wildcard={"rules": [{"host": "a.*.example"}]},
        an_ingress_without_paths={"rules": [{"http": {"paths": []}}]},
        an_ingress_of_a_relative_path={
            "rules": [{"http": {"paths": [{"path": "a//b", "pathType": "Exact", "backend": _BACKEND}]}}]
        },
        an_ingress_to_two_things={
            "defaultBackend": {**_BACKEND, "resource": {"apiGroup": "x.example", "kind": "X", "name": "y"}}
        },
        an_ingress_without_port={"defaultBackend": {"service": {"name": "s"}}},
    ),
)
