"""Annotations that are the platform's word about an object: set by the controllers that may, once, and by nobody else.

Nodes act on them with rights that the Pod's author does not have. So not even those controllers may change one: not
with the object, not with its status, not with its binding. An update that leaves one out keeps it: a client that
replaces an object with its own manifest (`kubectl replace`) does not know of it.
"""

from __future__ import annotations

from typing import ClassVar

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET as PODS
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader


class HeldAnnotations(Plugin):
    """Which annotations, of which objects, by whom: each plugin of this kind says it."""

    annotations: ClassVar[tuple[str, ...]]
    buckets: ClassVar[frozenset[str]]
    writers: ClassVar[frozenset[str]]

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in self.buckets and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        known = self._held(attributes.old)
        if attributes.operation != "UPDATE" or attributes.obj is None or not known:
            return
        metadata = attributes.obj["metadata"]
        metadata["annotations"] = {**known, **(metadata.get("annotations") or {})}

    def validate(self, attributes: Attributes) -> None:
        said = self._held(attributes.obj)
        known = self._held(self._before(attributes, said))
        for annotation in self.annotations:
            if said.get(annotation) == known.get(annotation):
                continue
            if annotation in known:
                raise refuse(attributes, f"the annotation {annotation} cannot be changed once it is set")
            if attributes.user.name not in self.writers:
                raise refuse(attributes, f"the annotation {annotation} is set by the controllers only")

    def _before(self, attributes: Attributes, said: dict[str, str]) -> JsonObject | None:
        """The object as it is. A binding is about a Pod, and may leave its annotations alone."""
        if attributes.subresource != "binding":
            return attributes.old
        return self._reader.get(PODS, f"{attributes.namespace}/{attributes.name}") if said else None

    def _held(self, obj: JsonObject | None) -> dict[str, str]:
        annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
        return {name: annotations[name] for name in self.annotations if name in annotations}
