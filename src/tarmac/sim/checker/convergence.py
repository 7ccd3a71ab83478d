"""Convergence checks, for when all faults have ended: only wanted objects exist, and status is accurate.

`unmet` is polled until it yields nothing; the other checks run once, when all is quiet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tarmac.api.checks import mapping
from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_DEPLOYMENT_UID, LABEL_MOVED_FROM, LABEL_WORKLOAD_UID
from tarmac.api.conditions import condition_of, is_true
from tarmac.api.schema import JsonObject
from tarmac.sim.checker.replay import DEPLOYMENTS, INSTANCES, PODS, WORKLOADS, Mirror
from tarmac.sim.checker.rules import desired, labels
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.users import NAMESPACE, Wish

Counted = Mapping[str, int]


def _why(obj: JsonObject, kind: str) -> str:
    found = condition_of(obj, kind)
    return f"{kind} is {found.get('status')} ({found.get('reason')}: {found.get('message')})"


def _with(mirror: Mirror, bucket: str, label: str, value: str) -> list[JsonObject]:
    return [each for each in mirror.bucket(bucket).values() if labels(each).get(label) == value]


def unmet(mirror: Mirror, wishes: Iterable[Wish], load: Mapping[str, float]) -> Iterator[str]:
    """Yield wanted objects that are missing, and existing objects that are not wanted."""
    wanted = {f"{NAMESPACE}/{wish.name}": wish for wish in wishes}
    for key, wish in wanted.items():
        workload = mirror.bucket(WORKLOADS).get(key)
        if workload is None:
            yield f"workload {key} is missing"
        else:
            yield from _unmet(mirror, workload, wish, load)
    for key in mirror.bucket(WORKLOADS).keys() - wanted.keys():
        yield f"workload {key} is still there"
    deployments = {each["metadata"]["uid"] for each in mirror.bucket(DEPLOYMENTS).values()}
    for bucket in (INSTANCES, PODS):
        for key, each in mirror.bucket(bucket).items():
            if labels(each).get(LABEL_DEPLOYMENT_UID, "") not in deployments:
                yield f"{bucket} {key} has no owner"


def _unmet(mirror: Mirror, workload: JsonObject, wish: Wish, load: Mapping[str, float]) -> Iterator[str]:
    deployments = _with(mirror, DEPLOYMENTS, LABEL_WORKLOAD_UID, workload["metadata"]["uid"])
    cities = sorted(labels(each)[LABEL_CITY_CODE] for each in deployments)
    if cities != sorted(wish.cities):
        yield f"{wish.name} is in {cities}, not in {sorted(wish.cities)}"
    for deployment in deployments:
        number = wish.expected(load.get(labels(deployment)[LABEL_CITY_CODE].lower(), 0.0))
        yield from _unmet_here(mirror, deployment, wish.image, number)
    for kind in ("Available", "Progressing"):
        if not is_true(workload, kind):
            yield f"{wish.name}: {_why(workload, kind)}"
    if condition_of(workload, "Progressing").get("reason") != "Complete":
        yield f"{wish.name}: {_why(workload, 'Progressing')}"


def _unmet_here(mirror: Mirror, deployment: JsonObject, image: str, number: int) -> Iterator[str]:
    name, uid = deployment["metadata"]["name"], deployment["metadata"]["uid"]
    instances = _with(mirror, INSTANCES, LABEL_DEPLOYMENT_UID, uid)
    pods = _with(mirror, PODS, LABEL_DEPLOYMENT_UID, uid)
    if desired(deployment) != number:
        yield f"{name} wants {desired(deployment)}, not {number}"
    stopped = sum(_is_stopped(each) for each in instances)
    if len(instances) != number or len(pods) != number - stopped:
        have = f"{len(instances)} instances and {len(pods)} pods"
        yield f"{name} has {have}, not {number}: {_why(deployment, 'Progressing')}"
    for instance in instances:
        if is_true(instance, "Ready") == _is_stopped(instance):
            yield f"{instance['metadata']['name']}: {_why(instance, 'Ready')}"
    for pod in pods:
        runs = pod["spec"]["containers"][0]["image"]
        if runs != image:
            yield f"{pod['metadata']['name']} runs {runs}, not {image}"


def _is_stopped(instance: JsonObject) -> bool:
    return not mapping(instance, "spec", "runtime", "virtualMachine").get("running", True)


def lies(mirror: Mirror, fleet: SimulatedNodes) -> Iterator[str]:
    """Yield statuses that differ from the true state, starting from the processes."""
    running = {pod.uid: pod for pod in fleet.pods() if pod.runs}
    for key, pod in mirror.bucket(PODS).items():
        runs = pod["metadata"]["uid"] in running
        if is_true(pod, "Ready") != runs:
            yield f"pod {key}: {_why(pod, 'Ready')}, but its processes {'run' if runs else 'do not'}"
    known = {pod["metadata"]["uid"] for pod in mirror.bucket(PODS).values()}
    for uid, pod in running.items():
        if uid not in known:
            yield f"{pod.key} runs on {pod.node} without a Pod in the API"
    for key, instance in mirror.bucket(INSTANCES).items():
        pod = mirror.bucket(PODS).get(key)
        if is_true(instance, "Ready") != (pod is not None and is_true(pod, "Ready")):
            yield f"instance {key}: {_why(instance, 'Ready')}, but its pod says otherwise"
    for key, deployment in mirror.bucket(DEPLOYMENTS).items():
        yield from _miscounted(mirror, f"deployment {key}", deployment, LABEL_DEPLOYMENT_UID, desired(deployment))
    for key, workload in mirror.bucket(WORKLOADS).items():
        uid = workload["metadata"]["uid"]
        deployments = _with(mirror, DEPLOYMENTS, LABEL_WORKLOAD_UID, uid)
        # a moved deployment counts once, in its original city
        total = sum(desired(each) for each in deployments if LABEL_MOVED_FROM not in labels(each))
        yield from _miscounted(mirror, f"workload {key}", workload, LABEL_WORKLOAD_UID, total)


def _miscounted(mirror: Mirror, what: str, obj: JsonObject, label: str, wanted: int) -> Iterator[str]:
    status, metadata = obj.get("status") or {}, obj["metadata"]
    instances = _with(mirror, INSTANCES, label, metadata["uid"])
    truth: Counted = {
        "replicas": len(instances),
        "readyReplicas": sum(is_true(each, "Ready") for each in instances),
        "stoppedReplicas": sum(_is_stopped(each) for each in instances),
        "desiredReplicas": wanted,
    }
    for name, number in truth.items():
        if status.get(name, 0) != number:
            yield f"{what} says {name} {status.get(name, 0)}, and it is {number}"
    if status.get("observedGeneration") != metadata.get("generation"):
        yield f"{what} is at generation {metadata.get('generation')}, observed {status.get('observedGeneration')}"


def orphans(mirror: Mirror) -> Iterator[str]:
    """Yield objects whose owner is deleted."""
    present = {each["metadata"]["uid"] for _, objects in mirror.buckets() for each in objects.values()}
    for bucket, objects in mirror.buckets():
        for key, each in objects.items():
            for owner in each["metadata"].get("ownerReferences") or ():
                if owner["uid"] not in present:
                    yield f"{bucket} {key} has outlived its owner {owner['kind']} {owner['name']}"
