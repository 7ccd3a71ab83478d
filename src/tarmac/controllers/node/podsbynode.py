"""Index of pods by node, maintained incrementally, so that a query costs only its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tarmac.api.partial import Partial, PartialStatus, whereabouts
from tarmac.client.cache import Item
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.client.informer import Informer
from tarmac.decide.nodes import TaintToleration


class _Toleration(Partial):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: float | None = None


class _Spec(Partial):
    tolerations: list[_Toleration] | None = None


class NodePod(Partial):
    """A pod on a node: the fields that matter for evictions."""

    metadata: EnvelopeMetadata
    spec: _Spec
    status: PartialStatus = msgspec.field(default_factory=PartialStatus)

    def tolerances(self) -> list[TaintToleration]:
        """Return its tolerations, each with its duration."""
        return [
            TaintToleration(each.key, each.operator == "Exists", each.value, each.effect, each.toleration_seconds)
            for each in self.spec.tolerations or ()
        ]


_read = msgspec.json.Decoder(NodePod).decode


class PodsByNode:
    """Pods by node."""

    def __init__(self, pods: Informer[Any]) -> None:
        self._pods = pods
        self._nodes: dict[str, set[str]] = {}
        self._node_of: dict[str, str] = {}
        pods.on_change(self._changed)

    def of(self, node: str) -> Iterator[NodePod]:
        """Yield the pods bound to a node."""
        for key in sorted(self._nodes.get(node, ())):
            item = self._pods.cache.item(key)
            if item is not None:
                yield _read(item.raw)

    def nodes(self) -> list[str]:
        """Return every node with bound pods, even if the node does not exist."""
        return list(self._nodes)

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._leave(old.key)
            return
        node = whereabouts(new.raw).spec.node_name
        # A pod never moves, but its successor of the same name may be on another node.
        if node and self._node_of.get(new.key) != node:
            self._leave(new.key)
            self._node_of[new.key] = node
            self._nodes.setdefault(node, set()).add(new.key)

    def _leave(self, key: str) -> None:
        node = self._node_of.pop(key, None)
        if node is not None:
            left = self._nodes[node]
            left.discard(key)
            if not left:
                del self._nodes[node]
