"""Helpers shared by the plugins for Pods."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.mirrorpods import is_mirror
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.security.authorization.nodeauthorizer import node_name
from tarmac.server.security.users import User

BUCKET = "core/pods"
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")


class PodCreation(AdmissionPlugin):
    """A plugin for new Pods only."""

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == BUCKET and subresource == "" and operation == "CREATE"


def pod_of(attributes: Attributes) -> JsonObject:
    """Return the Pod being created or updated."""
    assert attributes.obj is not None
    return attributes.obj


def mirrors(pod: JsonObject) -> bool:
    """Return True if the Pod mirrors a static pod of a node."""
    return is_mirror(pod["metadata"].get("annotations"))


def is_of_a_node(user: User) -> bool:
    """Return True if the user is a node. NodeRestriction lets nodes write only mirrors of their static pods."""
    return bool(node_name(user))


def shared_namespaces(spec: JsonObject) -> list[str]:
    """Return the set fields that share host namespaces, which a sandbox with its own kernel cannot do."""
    return [field for field in _HOST_NAMESPACES if spec.get(field)]


def containers_of(pod: JsonObject, *fields: str) -> Iterator[JsonObject]:
    """Yield the containers in the given lists of the spec; by default in all three."""
    for field in fields or ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(field) or ()
