"""InterfaceHolding: which networks a Pod is on, and with which addresses, is for the controllers to say, once.

The annotation is what a node makes of a Pod's interfaces. Whoever could write it could join any network under any
address; so nobody may but the controllers that give out addresses or pass them on, and not even they may change it: not
with the Pod, not with its status, not with its binding.
"""

from __future__ import annotations

from tarmac.api.identities import POD_SCHEDULER, controller_user
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET as PODS
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_WRITERS = frozenset(controller_user(each) for each in ("deployment", "instance", POD_SCHEDULER))
_BUCKETS = frozenset({PODS, "compute.datumapis.com/instances"})


class InterfaceHolding(Plugin):
    """Looks at Pods, Instances and bindings."""

    name = "InterfaceHolding"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _BUCKETS and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        said = _interfaces(attributes.obj)
        known = _interfaces(self._before(attributes, said))
        if said == known:
            return
        if known is not None:
            raise refuse(attributes, f"the annotation {ANNOTATION_INTERFACES} cannot be changed once it is set")
        if attributes.user.name not in _WRITERS:
            raise refuse(attributes, f"the annotation {ANNOTATION_INTERFACES} is set by the controllers only")

    def _before(self, attributes: Attributes, said: str | None) -> JsonObject | None:
        """The object as it is. A binding is about a Pod, and may leave its annotations alone."""
        if attributes.subresource != "binding":
            return attributes.old
        return self._reader.get(PODS, f"{attributes.namespace}/{attributes.name}") if said is not None else None


def _interfaces(obj: JsonObject | None) -> str | None:
    annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION_INTERFACES)
