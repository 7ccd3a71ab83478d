"""Node constraints of a pod's disks.

A bound claim restricts the pod to the nodes that reach its volume; so does a claim with a selected node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.scheduling.demand import Disk
from tarmac.decide.scheduling.nodeterms import any_of
from tarmac.decide.verdict import Refusal, Verdict

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

Find = Callable[[str], JsonObject | None]
"""Returns an object by its key, or None."""


def claim_names(pod: JsonObject) -> Iterator[str]:
    """Yield the names of the claims that a pod uses."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def disks_of(pod: JsonObject, claim: Find, volume: Find) -> Verdict[tuple[Disk, ...]]:
    """Return the disks of a pod that are tied to nodes; a refusal if a claim is missing or being deleted."""
    found: list[Disk] = []
    for name in claim_names(pod):
        wanted = claim(f"{pod['metadata']['namespace']}/{name}")
        if wanted is None or "deletionTimestamp" in wanted["metadata"]:
            state = "does not exist" if wanted is None else "is being deleted"
            message = f"PersistentVolumeClaim {name} {state}."
            change = f"Create PersistentVolumeClaim {name}."
            return Verdict(None, (Refusal(reasons.SOURCE_NOT_FOUND, message, name, "disks", change),))
        terms = terms_of(wanted, volume)
        if terms is not None:
            found.append(Disk(name, any_of(terms)))
    return Verdict(tuple(found))


def terms_of(claim: JsonObject, volume: Find) -> list[Any] | None:
    """Return the node selector terms of a claim's disk; None if it is not tied to nodes yet."""
    volume_name = claim["spec"].get("volumeName")
    if volume_name:
        bound = volume(volume_name) or {}
        affinity = ((bound.get("spec") or {}).get("nodeAffinity") or {}).get("required")
        return affinity["nodeSelectorTerms"] if affinity else None
    node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    return [{"matchFields": [named]}] if node else None
