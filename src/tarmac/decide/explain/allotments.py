"""Explains the QoS classes and exclusive CPUs of a running pod's containers."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.api.kubernetes.core.nodeclasses import offered_classes
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, classes_of_containers, pod_classes
from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.allocatable.accounts import PodEntry
from tarmac.decide.allocatable.podentries import pod_entries
from tarmac.decide.allocatable.weights import shares
from tarmac.decide.amounts import CPU, amounts_of
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE
from tarmac.decide.explain.answer import refusal_line, yes
from tarmac.decide.snapshot.snapshot import NODES, Snapshot
from tarmac.decide.verdict import Refusal


def given_lines(snapshot: Snapshot, pod: JsonObject, city: str) -> list[ExplanationLine]:
    """Return lines that compare the classes and CPUs reported by the node with the requested ones."""
    node = NODES.get(snapshot, pod["spec"].get("nodeName", ""))
    if node is None:
        return []
    pod_types = offered_classes(node).pod
    entry = next(iter(pod_entries([pod], pod_types)), None)
    if entry is None:
        return []
    name = node["metadata"]["name"]
    lines = list(_class_lines(pod, entry, pod_types.keys(), city, name)) if asks_for_classes(pod) else []
    if CPU_EXCLUSIVE in (node["status"].get("capacity") or {}):
        lines += [yes(reasons.RUNNING, text, "processors", city, name) for text in _processors(pod, entry)]
    return lines


def _class_lines(
    pod: JsonObject, entry: PodEntry, pod_types: Collection[str], city: str, node: str
) -> Iterator[ExplanationLine]:
    wanted = [("the pod", "", pod_classes(pod, pod_types))]
    for container, classes in classes_of_containers(pod, pod_types):
        if _lasts(pod, container):
            wanted.append((f"container {container['name']}", container["name"], classes))
    for who, name, classes in wanted:
        for kind, requested in classes.items():
            has = entry.classes.get(name, {}).get(kind, "")
            if has == requested:
                yield yes(reasons.RUNNING, f"{who} is in class {kind}/{requested}", "classes", city, node)
            else:
                now = f"class {kind}/{has}" if has else f"no class of {kind}"
                message = f"{who} asked for class {kind}/{requested} and is in {now}"
                yield refusal_line(Refusal(reasons.CLASS_UNAVAILABLE, message, rule="classes"), city, node)


def _processors(pod: JsonObject, entry: PodEntry) -> Iterator[str]:
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        name = container["name"]
        if not _lasts(pod, container):
            continue
        if name in entry.cpus:
            yield f"container {name} has CPUs {entry.cpus[name]} to itself"
        else:
            requests = amounts_of((container.get("resources") or {}).get("requests"))
            yield f"container {name} shares CPUs, weight {shares(requests.get(CPU, 0))}"


def _lasts(pod: JsonObject, container: JsonObject) -> bool:
    """Return True if the container runs as long as the pod does."""
    return container in pod["spec"]["containers"] or is_sidecar(container)
