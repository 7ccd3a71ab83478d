"""Which pods are on which node, as far as anybody has to ask: kept pod by pod, so that asking costs only the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.client.cache import Item
from tarmac.client.envelope import Metadata
from tarmac.client.informer import Informer
from tarmac.decide.nodes import Tolerance


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Toleration(_Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: float | None = None


class _Condition(_Struct):
    type: str
    status: str


class _Spec(_Struct):
    tolerations: list[_Toleration] | None = None


class _Status(_Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class Resident(_Struct):
    """A pod on a node, as far as the node's troubles go."""

    metadata: Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ready(self) -> bool:
        """Whether it says that it serves."""
        return any((each.type, each.status) == ("Ready", "True") for each in self.status.conditions or ())

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.status.phase in TERMINAL

    def tolerances(self) -> list[Tolerance]:
        """What it tolerates, and for how long."""
        return [
            Tolerance(each.key, each.operator == "Exists", each.value, each.effect, each.toleration_seconds)
            for each in self.spec.tolerations or ()
        ]


class _Bound(_Struct):
    node_name: str = ""


class _BoundPod(_Struct):
    spec: _Bound


_read = msgspec.json.Decoder(Resident).decode
_read_bound = msgspec.json.Decoder(_BoundPod).decode


class Residents:
    """Pods by node."""

    def __init__(self, pods: Informer[Any]) -> None:
        self._pods = pods
        self._nodes: dict[str, set[str]] = {}
        self._node_of: dict[str, str] = {}
        pods.on_change(self._changed)

    def of(self, node: str) -> Iterator[Resident]:
        """The pods that are bound to a node."""
        for key in sorted(self._nodes.get(node, ())):
            item = self._pods.cache.item(key)
            if item is not None:
                yield _read(item.raw)

    def nodes(self) -> list[str]:
        """Every node that a pod is bound to, whether the node exists or not."""
        return list(self._nodes)

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._leave(old.key)
            return
        node = _read_bound(new.raw).spec.node_name
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
