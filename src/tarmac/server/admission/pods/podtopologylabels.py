"""PodTopologyLabels: copies the node's zone and region labels to a Pod bound to it.

Containers can then read their location through the downward API, and Pods can be selected by location. The node's
labels override those of the binding or the new Pod. If the node does not exist, no labels are set.
"""

from __future__ import annotations

from tarmac.api.networking.names import LABEL_REGION, LABEL_ZONE
from tarmac.api.partial import read_labels
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.reader import Reader
from tarmac.store.interface import Entry

_NODES = "core/nodes"


_MAX_CACHED = 10_000


class PodTopologyLabels(AdmissionPlugin):
    """Handles bindings, and Pods created on a node."""

    name = "PodTopologyLabels"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, tuple[Entry, dict[str, str]]] = {}  # by node: its version and topology labels

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == PODS and subresource in ("", "binding") and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        obj = attributes.obj
        assert obj is not None, "a create has an object"
        node = _target(obj) if attributes.subresource else obj["spec"].get("nodeName")
        entry = self._reader.store.head(_NODES, node) if node else None
        if entry is not None and (found := self._topology(entry)):
            obj["metadata"]["labels"] = (obj["metadata"].get("labels") or {}) | found

    def _topology(self, node: Entry) -> dict[str, str]:
        known = self._known.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        given = read_labels(node.raw)
        found = {key: given[key] for key in (LABEL_REGION, LABEL_ZONE) if key in given}
        self._known[node.name] = node, found
        return found


def _target(binding: JsonObject) -> str:
    target = binding.get("target") or {}
    return target.get("name", "") if target.get("kind") == "Node" else ""
