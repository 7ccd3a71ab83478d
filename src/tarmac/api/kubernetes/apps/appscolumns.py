"""The columns of `kubectl get` for kinds that run pods: apps, batch, autoscaling, and their kinds in core."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tarmac.api.checks import mapping, objects
from tarmac.api.conditions import condition_of
from tarmac.api.kubernetes.autoscaling.metricspecs import targets_cell
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, UNSET, cell, field, join_labels, since
from tarmac.api.resource import Age, Column
from tarmac.api.schema import JsonObject
from tarmac.base.duration import human_duration
from tarmac.base.selectors import LabelMatcher

_JOB_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template")
_TEMPLATE: Final = ("spec", "template")


def _containers(*path: str, wide: bool = True) -> tuple[Column, Column]:
    def listed(obj: JsonObject, key: str) -> str:
        return ",".join(each.get(key, "") for each in objects(obj, *path, "spec", "containers"))

    return (
        cell("Containers", lambda obj: listed(obj, "name"), "Names of each container in the template.", wide=wide),
        cell(
            "Images",
            lambda obj: listed(obj, "image"),
            "Images referenced by each container in the template.",
            wide=wide,
        ),
    )


def selector_text(selector: JsonObject | None) -> str:
    """Return a label selector as clients write it on a command line."""
    if selector is None:
        return NONE
    try:
        return str(LabelMatcher.from_object(selector)) or NONE
    except ValueError:
        return "<error>"


def _selector(*path: str, plain: bool = False) -> Column:
    def value(obj: JsonObject) -> str:
        found = mapping(obj, *path[:-1]).get(path[-1])
        return join_labels(found) if plain else selector_text(found)

    return cell("Selector", value, "." + ".".join(path), wide=True)


_SELECTOR: Final = _selector("spec", "selector")


def _count(name: str, path: str) -> Column:
    return field(name, path, default=0, type="integer")


def _ready_of_desired(obj: JsonObject) -> str:
    return f"{mapping(obj, 'status').get('readyReplicas', 0)}/{mapping(obj, 'spec').get('replicas', 0)}"


def _job_status(job: JsonObject) -> str:
    for kind in ("Complete", "Failed"):
        if condition_of(job, kind).get("status") == "True":
            return kind
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition_of(job, kind).get("status") == "True":
            return kind
    return "Running"


def _completions(job: JsonObject) -> str:
    spec, done = mapping(job, "spec"), mapping(job, "status").get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: JsonObject) -> Any:
    status = mapping(job, "status")
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    if not end:
        return Age(start)
    return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _daemon_selector(obj: JsonObject) -> str:
    return join_labels(mapping(obj, *_TEMPLATE, "spec").get("nodeSelector"))


def _reference(obj: JsonObject) -> str:
    target = mapping(obj, "spec", "scaleTargetRef")
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _last_schedule(cron: JsonObject) -> Any:
    scheduled = mapping(cron, "status").get("lastScheduleTime")
    return since(scheduled) if scheduled else NONE


COLUMNS: Final[dict[tuple[str, str], tuple[Column, ...]]] = {
    ("", "PodTemplate"): (
        NAME,
        *_containers("template", wide=False),
        cell(
            "Pod Labels",
            lambda obj: join_labels(mapping(obj, "template", "metadata").get("labels")),
            ".template.metadata",
        ),
    ),
    ("", "ReplicationController"): (
        NAME,
        _count("Desired", ".spec.replicas"),
        _count("Current", ".status.replicas"),
        _count("Ready", ".status.readyReplicas"),
        AGE,
        *_containers(*_TEMPLATE),
        _selector("spec", "selector", plain=True),
    ),
    ("apps", "DaemonSet"): (
        NAME,
        _count("Desired", ".status.desiredNumberScheduled"),
        _count("Current", ".status.currentNumberScheduled"),
        _count("Ready", ".status.numberReady"),
        _count("Up-to-date", ".status.updatedNumberScheduled"),
        _count("Available", ".status.numberAvailable"),
        cell("Node Selector", _daemon_selector, ".spec.template"),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "Deployment"): (
        NAME,
        cell("Ready", _ready_of_desired, "Number of the pod with ready state"),
        cell("Up-to-date", lambda obj: mapping(obj, "status").get("updatedReplicas", 0), ".status.updatedReplicas"),
        cell("Available", lambda obj: mapping(obj, "status").get("availableReplicas", 0), ".status.availableReplicas"),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "ReplicaSet"): (
        NAME,
        _count("Desired", ".spec.replicas"),
        _count("Current", ".status.replicas"),
        _count("Ready", ".status.readyReplicas"),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "StatefulSet"): (
        NAME,
        cell("Ready", _ready_of_desired, "Number of the pod with ready state"),
        AGE,
        *_containers(*_TEMPLATE),
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        NAME,
        cell("Reference", _reference, ".spec.scaleTargetRef"),
        cell("Targets", targets_cell, ".spec.metrics"),
        cell("MinPods", lambda obj: str(mapping(obj, "spec").get("minReplicas", UNSET)), ".spec.minReplicas"),
        cell("MaxPods", lambda obj: mapping(obj, "spec").get("maxReplicas", 0), ".spec.maxReplicas"),
        cell("Replicas", lambda obj: mapping(obj, "status").get("currentReplicas", 0), ".status.currentReplicas"),
        AGE,
    ),
    ("batch", "CronJob"): (
        NAME,
        field("Schedule", ".spec.schedule"),
        field("Timezone", ".spec.timeZone", default=NONE),
        cell("Suspend", lambda obj: str(bool(mapping(obj, "spec").get("suspend"))), ".spec.suspend", type="boolean"),
        cell("Active", lambda obj: len(objects(obj, "status", "active")), ".status.active", type="integer"),
        cell("Last Schedule", _last_schedule, ".status.lastScheduleTime"),
        AGE,
        *_containers(*_JOB_TEMPLATE),
        _selector("spec", "jobTemplate", "spec", "selector"),
    ),
    ("batch", "Job"): (
        NAME,
        cell("Status", _job_status, "Status of the job."),
        cell("Completions", _completions, ".status.succeeded"),
        cell("Duration", _duration, "Time required to complete the job."),
        AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
}
