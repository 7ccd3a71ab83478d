"""What the plugins for Pods have in common."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin

BUCKET = "core/pods"
MIRROR = "kubernetes.io/config.mirror"


class PodCreation(Plugin):
    """A plugin that looks at new Pods only."""

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == BUCKET and subresource == "" and operation == "CREATE"


def pod_of(attributes: Attributes) -> JsonObject:
    """The Pod that is being created or updated."""
    assert attributes.obj is not None
    return attributes.obj


def is_mirror(pod: JsonObject) -> bool:
    """Whether the Pod only shows what a node runs on its own."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def containers_of(pod: JsonObject, *fields: str) -> Iterator[JsonObject]:
    """Containers in the given lists of the spec; without any, in all three."""
    for field in fields or ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(field) or ()
