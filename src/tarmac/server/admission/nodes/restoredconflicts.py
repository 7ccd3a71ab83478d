"""RestoredConflicts: after a restore, rejects pods under a disputed name, and annotates new Nodes.

Two pods of one name would write to the same disks and serve under the same name. An operator decides which one stays
(`tarmac restored`); until then controllers get an error with the reason and retry. A node newer than the backup is not
in the store; when its agent registers it again, the Node carries the annotation too, so that the agent stops no pods.
"""

from __future__ import annotations

from tarmac.api.identities import RESTORED
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.reader import Reader
from tarmac.server.restored import refuse_conflict, restored_at

_NODES = "core/nodes"


class RestoredConflicts(AdmissionPlugin):
    """Checks new pods, bindings and Nodes. Without a restore this costs one comparison of a counter."""

    name = "RestoredConflicts"

    def __init__(self, reader: Reader) -> None:
        self._store = reader.store

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        looked_at = {PODS: ("", "binding"), _NODES: ("",)}.get(resource.bucket, ())
        return subresource in looked_at and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.bucket == _NODES and (time := restored_at(self._store)):
            assert attributes.obj is not None
            attributes.obj["metadata"].setdefault("annotations", {})[RESTORED] = time

    def validate(self, attributes: Attributes) -> None:
        if attributes.resource.bucket == PODS:
            assert attributes.obj is not None
            # The server assigns the uid of a new Pod; the uid in a Binding comes from the client and is not trusted.
            uid = "" if attributes.subresource else attributes.obj["metadata"].get("uid", "")
            refuse_conflict(self._store, attributes.namespace, attributes.name, uid)
