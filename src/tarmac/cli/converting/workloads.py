"""A Deployment, StatefulSet, ReplicaSet or ReplicationController as a Workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.cli.converting.convertedcontainers import amounts, container, disk, volume
from tarmac.cli.converting.notes import Notes

CONVERTED: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
REFUSED: Final[Mapping[str, str]] = {
    "DaemonSet": "a Workload counts instances in a city, not by node",
    "Job": "a Workload keeps its instances running, and a Job ends",
    "CronJob": "a Workload keeps its instances running, and a Job ends",
    "HorizontalPodAutoscaler": "write its metrics into scaleSettings of the Workload",
    "PodDisruptionBudget": "it selects pods by label, and works with those of a Workload",
}
_OWN_ANNOTATIONS: Final = ("deployment.kubernetes.io/", "kubectl.kubernetes.io/")
_TEMPLATE: Final = "spec.template.spec"
_DEFAULTS: Final[JsonObject] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "terminationGracePeriodSeconds": 30,
}
_HANDLED: Final[dict[str, str | None]] = dict.fromkeys((
    "containers", "initContainers", "volumes", "tolerations", "priorityClassName", "imagePullSecrets",
    "terminationGracePeriodSeconds", "securityContext",
))  # fmt: skip
_PLACES: Final = "name cities in placements"
_REASONS: Final[Mapping[str, str | None]] = _HANDLED | {
    "nodeSelector": _PLACES,
    "affinity": _PLACES,
    "topologySpreadConstraints": _PLACES,
    "serviceAccountName": "an instance has an identity of its own, from the metadata service",
    "serviceAccount": "an instance has an identity of its own, from the metadata service",
    "automountServiceAccountToken": "an instance has an identity of its own, from the metadata service",
    "hostNetwork": "an instance has a kernel of its own",
    "hostPID": "an instance has a kernel of its own",
    "hostIPC": "an instance has a kernel of its own",
    "runtimeClassName": "an instance has a kernel of its own",
}
_SPEC: Final[dict[str, str | None]] = dict.fromkeys((
    "replicas", "selector", "template", "strategy", "updateStrategy", "minReadySeconds", "progressDeadlineSeconds",
    "paused", "volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy", "podManagementPolicy", "serviceName",
))  # fmt: skip
_SPEC_REASONS: Final[Mapping[str, str | None]] = _SPEC | {
    "revisionHistoryLimit": "the history of a Workload has its own limit"
}


def workload(obj: JsonObject, cities: Sequence[str], notes: Notes) -> JsonObject:
    """Convert an object of one of the `CONVERTED` kinds."""
    spec, own = obj.get("spec") or {}, obj.get("metadata") or {}
    notes.copy(spec, "spec", (), _SPEC_REASONS)
    annotations = {k: v for k, v in (own.get("annotations") or {}).items() if not k.startswith(_OWN_ANNOTATIONS)}
    metadata = {name: own[name] for name in ("name", "namespace", "labels") if own.get(name)}
    made: JsonObject = {"template": _template(spec, notes), "placements": [_placement(obj, cities, notes)]}
    if rollout := _rollout(spec, notes):
        made["rollout"] = rollout
    if spec.get("paused"):
        made["paused"] = True
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": metadata | ({"annotations": annotations} if annotations else {}),
        "spec": made,
    }


def _placement(obj: JsonObject, cities: Sequence[str], notes: Notes) -> JsonObject:
    spec = obj.get("spec") or {}
    replicas = spec.get("replicas", 1)
    if replicas < 1:
        notes.add("spec.replicas", "1 in each city: a Workload has at least one instance in a city")
    elif len(cities) > 1:
        notes.add("spec.replicas", f"{replicas} in each of {len(cities)} cities, {replicas * len(cities)} in all")
    # pods of every kind but an ordered StatefulSet start side by side
    ordered = obj["kind"] == "StatefulSet" and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    policy: JsonObject = {} if ordered else {"instanceManagementPolicy": "Parallel"}
    settings = {"minReplicas": max(1, replicas), **policy}
    return {"name": "cities", "cityCodes": list(cities), "scaleSettings": settings}


def _rollout(spec: JsonObject, notes: Notes) -> JsonObject:
    made = {field: spec[field] for field in ("minReadySeconds", "progressDeadlineSeconds") if spec.get(field)}
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return {**made, "maxUnavailable": "100%"}
    rolling = strategy.get("rollingUpdate") or {}
    made |= {field: rolling[field] for field in ("maxUnavailable", "maxSurge") if field in rolling}
    if strategy and "maxSurge" not in rolling:
        made |= {"maxUnavailable": rolling.get("maxUnavailable", "25%"), "maxSurge": "25%"}
    update = spec.get("updateStrategy") or {}
    if update.get("type") == "OnDelete" or (update.get("rollingUpdate") or {}).get("partition"):
        notes.left("spec.updateStrategy", "a rollout goes through all instances; set paused to hold it")
    return made


def _template(spec: JsonObject, notes: Notes) -> JsonObject:
    template = spec.get("template") or {}
    pod, own = template.get("spec") or {}, template.get("metadata") or {}
    notes.copy({k: v for k, v in pod.items() if _DEFAULTS.get(k) != v}, _TEMPLATE, (), _REASONS)
    volumes = _volumes(spec, pod, notes)
    known = frozenset(each["name"] for each in volumes)
    containers: list[JsonObject] = [*(pod.get("containers") or ())]
    inits: list[JsonObject] = [*(pod.get("initContainers") or ())]
    for each in [each for each in inits if each.get("restartPolicy") == "Always"]:
        notes.add(f"{_TEMPLATE}.initContainers[{each.get('name')}]", "a sidecar: starts beside the containers")
        inits.remove(each)
        containers.append(each)
    sandbox: JsonObject = {}
    for field, group in (("containers", containers), ("initContainers", inits)):
        path = f"{_TEMPLATE}.{field}"
        alone = field == "initContainers" or len(group) == 1
        made = [container(each, f"{path}[{each.get('name')}]", known, notes, alone=alone) for each in group]
        sandbox |= {field: made} if made else {}
    sandbox |= _settings(pod, notes)
    requests = amounts(containers, inits, f"{_TEMPLATE}.containers", notes)
    resources = {"instanceType": "datumcloud/d1-custom", "requests": requests}
    made_spec: JsonObject = {
        "runtime": {"resources": resources, "sandbox": sandbox},
        "networkInterfaces": [{"network": {"name": "default"}}],
        **({"volumes": volumes} if volumes else {}),
        **{field: pod[field] for field in ("tolerations", "priorityClassName") if pod.get(field)},
    }
    metadata = {field: own[field] for field in ("labels", "annotations") if own.get(field)}
    return {"metadata": metadata, "spec": made_spec} if metadata else {"spec": made_spec}


def _settings(pod: JsonObject, notes: Notes) -> JsonObject:
    made = {"imagePullSecrets": pod["imagePullSecrets"]} if pod.get("imagePullSecrets") else {}
    security = notes.copy(pod.get("securityContext") or {}, f"{_TEMPLATE}.securityContext", ("sysctls",))
    seconds = pod.get("terminationGracePeriodSeconds", 30)
    return made | security | ({"terminationGracePeriodSeconds": seconds} if seconds != 30 else {})


def _volumes(spec: JsonObject, pod: JsonObject, notes: Notes) -> list[JsonObject]:
    found = [volume(each, f"{_TEMPLATE}.volumes[{each.get('name')}]", notes) for each in pod.get("volumes") or ()]
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    retain = policy.get("whenDeleted", "Retain") == "Retain"
    disks = [
        disk(each, f"spec.volumeClaimTemplates[{each['metadata']['name']}]", retain, notes)
        for each in spec.get("volumeClaimTemplates") or ()
    ]
    return [each for each in found if each is not None] + disks
