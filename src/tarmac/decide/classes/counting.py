"""How many places of each class a pod takes.

A class of a type that is offered for pods is taken once by the pod; one of a type that is offered for containers is
taken once by each container in it. Init containers run one after another, beside the sidecars that were started before
them, so the pod takes the larger of what runs in the end and the hungriest step on the way, as it does of amounts.
Ephemeral containers are not counted, as their amounts are not.
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
    """What the pod takes where `pod_types` are offered for pods and all others for containers."""
    if not asks_for_classes(pod):
        return {}
    taken = _of_containers(pod, pod_types)
    for place in pod_classes(pod, pod_types).items():
        taken[place] = taken.get(place, 0) + 1
    return taken


def _of_containers(pod: JsonObject, pod_types: Collection[str]) -> Places:
    init = len(pod["spec"].get("initContainers") or ())
    staying: Places = {}  # sidecars, while init containers run; everything that runs in the end
    peak: Places = {}
    for index, (container, classes) in enumerate(classes_of_containers(pod, pod_types)):
        passing = index < init and not is_sidecar(container)
        for place in classes.items():
            taken = staying.get(place, 0) + 1
            peak[place] = max(peak.get(place, 0), taken)
            if not passing:
                staying[place] = taken
    return peak
