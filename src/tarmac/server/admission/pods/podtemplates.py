"""Pod templates of Kubernetes' own kinds: the stock controllers create Pods from them under accounts of their own.

These accounts may use every class, so a right is checked for the author of the template, when it changes.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.checks import mapping
from tarmac.api.schema import JsonObject

POD_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "apps/daemonsets": ("spec", "template"),
    "apps/deployments": ("spec", "template"),
    "apps/replicasets": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
    "batch/jobs": ("spec", "template"),
    "core/replicationcontrollers": ("spec", "template"),
}


def template_spec(bucket: str, obj: JsonObject | None) -> JsonObject:
    """Return the pod spec of an object's template; empty if there is none."""
    return mapping(obj, *POD_TEMPLATES[bucket], "spec")
