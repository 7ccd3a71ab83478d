"""Small full clusters drawn at random, each with one pod to schedule: nodes, pods of four priorities, budgets.

A cluster is drawn from its number, so a failure names all it takes to reproduce it. Clusters share an API server: each
has a namespace and nodes of its own, and its pods select those nodes by a label. Pods of one node have started at
different times, and at most one has not started yet: kube-scheduler does not define the order of two pods that started
at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.decide.scheduling.world import HOSTNAME, Json, node, pod, required, spread

ZONE = "topology.kubernetes.io/zone"
CLASSES = {"lowest": -10, "low": 0, "middle": 10, "high": 20, "highest": 30}
POLITE = "polite"  # same value as high, but never preempts
WANTED = "wanted"


@dataclass(slots=True)
class RandomCluster:
    """The objects of one cluster. `statuses` are written to pods and budgets after their creation, by name."""

    name: str
    nodes: list[Json] = field(default_factory=list[Json])
    pods: list[Json] = field(default_factory=list[Json])
    budgets: list[Json] = field(default_factory=list[Json])
    statuses: dict[str, Json] = field(default_factory=dict[str, Json])


def priority_classes() -> list[Json]:
    """Return the priority classes of the pods."""
    made = [{"metadata": {"name": name}, "value": value} for name, value in CLASSES.items()]
    return [*made, {"metadata": {"name": POLITE}, "value": CLASSES["high"], "preemptionPolicy": "Never"}]


def random_cluster(number: int) -> RandomCluster:
    """Return the cluster of this number."""
    dice = Random(number)
    cluster = RandomCluster(f"c{number:03}")
    crowded = dice.random() < 0.3  # with rules about other pods
    alike = dice.random() < 0.15  # all nodes are equal
    for index in range(dice.randint(1, 5)):
        _add_node(Random(number) if alike else dice, cluster, f"{cluster.name}-{index}", crowded)
    for index in range(dice.randint(0, 3)):
        _protect(dice, cluster, f"b{index}")
    cluster.pods.append(_wanted(dice, cluster.name, crowded))
    return cluster


def _add_node(dice: Random, cluster: RandomCluster, name: str, crowded: bool) -> None:
    """Add a node and pods on it: about as many as it has room for, sometimes more."""
    labels = {"cluster": cluster.name}
    if crowded:  # not always: with a zone, pods get it as a label, and none is without labels
        labels[ZONE] = f"{cluster.name}-{dice.choice('ab')}"
    cpu, places = dice.randint(2, 6), dice.randint(3, 9)
    cluster.nodes.append(node(name, str(cpu), "8Gi", str(places), labels))
    starts = dice.sample(range(60), places)
    taken = 0
    for index in range(dice.randint(places // 2, places)):
        if taken >= 2 * cpu:
            return
        halves = dice.choice((0, 1, 1, 2, 2, 3, 4))
        taken += halves
        cluster.pods.append(_neighbour(dice, cluster.name, name, f"{name}-{index}", f"{halves * 500}m", crowded))
        started = {} if index == 0 and dice.random() < 0.2 else {"startTime": f"2026-01-01T00:{starts[index]:02}:00Z"}
        cluster.statuses[f"{name}-{index}"] = {"phase": "Running", **started}


def _neighbour(dice: Random, namespace: str, where: str, name: str, cpu: str, crowded: bool) -> Json:
    """Return a pod that is bound to a node."""
    labels = dice.choice(({}, {}, {"app": "web"}, {"app": "web", "tier": "front"}, {"app": "db"}))
    spec: Json = {"priorityClassName": dice.choice(list(CLASSES)[:4]), "nodeName": where}
    if crowded and dice.random() < 0.2:
        spec["ports"] = _host_port(dice)
    if crowded and dice.random() < 0.1:
        spec["affinity"] = _apart({"app": WANTED}, HOSTNAME)
    return pod(name, {"cpu": cpu, "memory": f"{dice.randint(0, 2)}Gi"}, labels, namespace=namespace, **spec)


def _wanted(dice: Random, namespace: str, crowded: bool) -> Json:
    """Return the pod to schedule."""
    spec: Json = {"nodeSelector": {"cluster": namespace}, "priorityClassName": _rank(dice)}
    # No controller removes the taint of new nodes here.
    spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}]
    if crowded:
        spec |= dice.choice(
            (
                {"ports": _host_port(dice)},
                {"affinity": _apart({"app": "web"}, dice.choice((HOSTNAME, ZONE)))},
                {"topologySpreadConstraints": spread(dice.choice((HOSTNAME, ZONE)), app=dice.choice(("web", "db")))},
                {"affinity": required("podAffinity", _term({"app": "db"}, dice.choice((HOSTNAME, ZONE))))},
            )
        )
    labels = {"app": dice.choice((WANTED, "web", "db"))}
    return pod(WANTED, _size(dice), labels, namespace=namespace, **spec)


def _rank(dice: Random) -> str:
    return POLITE if dice.random() < 0.05 else dice.choice(("high", "highest", "highest"))


def _protect(dice: Random, cluster: RandomCluster, name: str) -> None:
    """Add a budget, which may have disrupted pods already."""
    selector = dice.choice(
        (
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"app": "db"}},
            {"matchLabels": {"tier": "front"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
        )
    )
    metadata = {"name": name, "namespace": cluster.name}
    cluster.budgets.append({"metadata": metadata, "spec": {"minAvailable": 1, "selector": selector}})
    status: Json = {"observedGeneration": 1, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3}
    status["disruptionsAllowed"] = dice.choice((0, 0, 1, 2))
    if dice.random() < 0.3:
        gone = dice.choice(cluster.pods)["metadata"]["name"]
        status["disruptedPods"] = {gone: "2026-01-01T01:00:00Z"}
    cluster.statuses[name] = status


def _size(dice: Random) -> dict[str, str]:
    sizes = {"cpu": f"{dice.randint(2, 9) * 500}m", "memory": f"{dice.randint(0, 6)}Gi"}
    return {name: sizes[name] for name in sizes if dice.random() < 0.9}


def _host_port(dice: Random) -> list[Json]:
    return [{"containerPort": 80, "hostPort": dice.choice((8080, 8081))}]


def _apart(labels: dict[str, str], key: str) -> Json:
    return required("podAntiAffinity", _term(labels, key))


def _term(labels: dict[str, str], key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
