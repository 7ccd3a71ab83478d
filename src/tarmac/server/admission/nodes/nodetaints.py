"""TaintNodesByCondition: a new node gets no Pods until it is observed as ready."""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation

_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(AdmissionPlugin):
    """Adds the not-ready taint to new nodes."""

    name = "TaintNodesByCondition"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket == "core/nodes" and subresource == "" and operation == "CREATE"

    def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        taints = attributes.obj.setdefault("spec", {}).setdefault("taints", [])
        if not any((taint.get("key"), taint.get("effect")) == tuple(_TAINT.values()) for taint in taints):
            taints.append(dict(_TAINT))
