"""LocalDiskRemoval: a node may only remove the finalizer of its own removed disk from a volume."""

from __future__ import annotations

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.security.authorization.nodeauthorizer import node_name

_VOLUMES = "core/persistentvolumes"


class LocalDiskRemoval(AdmissionPlugin):
    """Applies to users of the group `system:nodes`."""

    name = "LocalDiskRemoval"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == _VOLUMES

    def validate(self, attributes: Attributes) -> None:
        node = node_name(attributes.user)
        if node is None:
            return
        new, old = attributes.obj, attributes.old
        if attributes.operation != "UPDATE" or attributes.subresource or new is None or old is None:
            raise refuse(attributes, "nodes may only take the finalizer off volumes whose disk they have removed")
        metadata = old["metadata"]
        if (metadata.get("labels") or {}).get(LABEL_DISK_NODE) != node:
            raise refuse(attributes, f'the disk is not on node "{node}"')
        if "deletionTimestamp" not in metadata:
            raise refuse(attributes, "the volume is not being deleted")
        if _content(new, ()) != _content(old, (DISK_FINALIZER,)):
            raise refuse(attributes, f"nodes may only take the finalizer {DISK_FINALIZER} off")


def _content(volume: JsonObject, less: tuple[str, ...]) -> JsonObject:
    """Return a volume without bookkeeping fields and without the given finalizers."""
    finalizers = [each for each in volume["metadata"].get("finalizers") or () if each not in less]
    kept = {name: value for name, value in volume["metadata"].items() if name not in _BOOKKEEPING}
    return {**volume, "metadata": {**kept, "finalizers": finalizers}}


_BOOKKEEPING = frozenset({"managedFields", "resourceVersion", "finalizers", "generation"})
