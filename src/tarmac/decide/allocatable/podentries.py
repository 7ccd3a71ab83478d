"""A pod as the ledger of its node counts it, read from the object.

Exclusive CPUs are read from an annotation, classes in effect from the status, or from an annotation on a server that
does not know the field. A missing entry means that nothing is assigned. Malformed text counts as missing too, because
any client with the right to write a pod's status could have written it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from tarmac.api.kubernetes.core.nodeclasses import CLASSES_ANNOTATION
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.accounts import PodEntry
from tarmac.decide.allocatable.weights import MIN_SHARES, shares
from tarmac.decide.amounts import CPU
from tarmac.decide.qosclasses.counting import places
from tarmac.decide.scheduling.demand import requests_of

CPUS_ANNOTATION: Final = "node.tarmac/cpus"
"""On a Pod: the exclusive CPUs of its containers, `{"<container>":"2-3"}`."""
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_as_names = msgspec.json.Decoder(dict[str, str]).decode


class _InEffect(msgspec.Struct):
    pod: dict[str, str] = {}
    containers: dict[str, dict[str, str]] = {}


_as_classes = msgspec.json.Decoder(_InEffect).decode


def pod_entries(pods: Iterable[JsonObject], pod_types: Collection[str] = ()) -> list[PodEntry]:
    """Return the entries of pods that have not terminated.

    `pod_types`: the types that the node offers for whole pods.
    """
    return [_entry(pod, pod_types) for pod in pods if not is_terminal(pod)]


def _entry(pod: JsonObject, pod_types: Collection[str]) -> PodEntry:
    metadata, spec = pod["metadata"], pod["spec"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    requests = requests_of(spec)
    return PodEntry(
        metadata.get("namespace", ""),
        metadata["name"],
        requests,
        MIN_SHARES if qos_class(spec) == "BestEffort" else shares(requests.get(CPU, 0)),
        _cpus(annotations.get(CPUS_ANNOTATION, "")),
        _classes(pod.get("status") or {}, annotations.get(CLASSES_ANNOTATION, "")),
        places(pod, pod_types),
    )


def _cpus(text: str) -> dict[str, CPUSet]:
    try:
        return {name: CPUSet.parse(cpus) for name, cpus in _as_names(text).items()} if text else {}
    except (ValueError, RecursionError):
        return {}


def _classes(status: JsonObject, text: str) -> dict[str, dict[str, str]]:
    """Return the classes by container, those of the whole pod under the empty name. A class not in effect is empty."""
    found: dict[str, dict[str, str]] = {}
    if whole := (status.get("resources") or {}).get("classes"):
        found[""] = whole
    for each in (each for field in _STATUSES for each in status.get(field) or ()):
        if classes := (each.get("resources") or {}).get("classes"):
            found[each["name"]] = classes
    return found or (_annotated(text) if text else {})


def _annotated(text: str) -> dict[str, dict[str, str]]:
    try:
        classes = _as_classes(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {
        **({"": classes.pod} if classes.pod else {}),
        **{name: each for name, each in classes.containers.items() if each},
    }
