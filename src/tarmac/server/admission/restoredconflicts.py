"""After a restore: no pod is made or bound under a name that a node runs otherwise, and new Nodes know of the restore.

Two pods of one name would write to the same disks and answer under the same name. Somebody decides which of them it is
(`tarmac restored`); until then controllers are told why, and try again. A node that is newer than the backup is not in
the store; when its agent registers it again, the Node says so too, so that the agent ends nothing.
"""

from __future__ import annotations

from tarmac.api.identities import RESTORED
from tarmac.api.resource import Resource
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET as PODS
from tarmac.server.reader import Reader
from tarmac.server.restored import refuse_conflict, restored_at

_NODES = "core/nodes"


class RestoredConflicts(Plugin):
    """Looks at new pods, bindings and Nodes; where nothing was restored that is one look at a counter."""

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
            refuse_conflict(self._store, attributes.namespace, attributes.name)
