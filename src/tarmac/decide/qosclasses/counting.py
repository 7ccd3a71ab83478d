"""Counts the places of each class that a pod takes.

For a type offered for pods, the pod takes one place; for a type offered for containers, each container in the class
takes one. Init containers run one after another, beside the sidecars started before them, so the pod takes the larger
of the final state and the most demanding init step, as with resource amounts. Ephemeral containers are not counted,
like their resource amounts.
"""

from __future__ import annotations

from collections.abc import Collection

from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, classes_of_containers, pod_classes
from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.schema import JsonObject

Place = tuple[str, str]
"""Type and class."""

Places = dict[Place, int]


def places(pod: JsonObject, pod_types: Collection[str] = ()) -> Places:
    """Return the places a pod takes if `pod_types` are offered for pods and all other types for containers."""
    if not asks_for_classes(pod):
        return {}
    taken = _of_containers(pod, pod_types)
    for place in pod_classes(pod, pod_types).items():
        taken[place] = taken.get(place, 0) + 1
    return taken


def _of_containers(pod: JsonObject, pod_types: Collection[str]) -> Places:
    init = len(pod["spec"].get("initContainers") or ())
    staying: Places = {}  # sidecars during init, later all regular containers too
    peak: Places = {}
    for index, (container, classes) in enumerate(classes_of_containers(pod, pod_types)):
        passing = index < init and not is_sidecar(container)
        for place in classes.items():
            taken = staying.get(place, 0) + 1
            peak[place] = max(peak.get(place, 0), taken)
            if not passing:
                staying[place] = taken
    return peak
