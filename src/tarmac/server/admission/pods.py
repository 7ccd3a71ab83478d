"""What the plugins for Pods have in common."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.security.nodeauthorizer import node_name
from tarmac.server.security.users import User

BUCKET = "core/pods"
MIRROR = "kubernetes.io/config.mirror"
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")


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


def is_of_a_node(user: User) -> bool:
    """Whether a node writes, which NodeRestriction lets write mirrors of its own static pods only."""
    return bool(node_name(user))


def shared_namespaces(spec: JsonObject) -> list[str]:
    """The fields by which a Pod becomes part of its node; no sandbox with its own kernel can do that."""
    return [field for field in _HOST_NAMESPACES if spec.get(field)]


def containers_of(pod: JsonObject, *fields: str) -> Iterator[JsonObject]:
    """Containers in the given lists of the spec; without any, in all three."""
    for field in fields or ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(field) or ()
