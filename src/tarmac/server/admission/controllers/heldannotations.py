"""Annotations that only certain controllers may set, once.

Nodes act on them with rights that the Pod's author does not have. So not even those controllers may change one: not
with the object, its status or its binding. An update that omits one keeps it, because a client that replaces an object
with its own manifest (`kubectl replace`) does not know it.
"""

from __future__ import annotations

from typing import ClassVar

from tarmac.api.compute.names import MACHINE_ANNOTATIONS
from tarmac.api.identities import POD_SCHEDULER, controller_user
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader


class HeldAnnotations(AdmissionPlugin):
    """Protects annotations. Subclasses define the annotations, the buckets and the allowed writers."""

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
        # The client's values last: a changed one must reach `validate`, which rejects it, instead of being undone in
        # silence.
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
        """Return the stored object. A binding concerns a Pod, and may omit its annotations."""
        if attributes.subresource != "binding":
            return attributes.old
        return self._reader.get(PODS, f"{attributes.namespace}/{attributes.name}") if said else None

    def _held(self, obj: JsonObject | None) -> dict[str, str]:
        annotations = ((obj or {}).get("metadata") or {}).get("annotations") or {}
        return {name: annotations[name] for name in self.annotations if name in annotations}


class InterfaceHolding(HeldAnnotations):
    """Only controllers set the networks and addresses of a Pod, once. Checks Pods, Instances and bindings.

    A node configures a Pod's interfaces from the annotation. A user able to write it could join any network under any
    address, so only the controllers that allocate addresses or pass them on may write it.
    """

    name = "InterfaceHolding"
    annotations = (ANNOTATION_INTERFACES,)
    buckets = frozenset({PODS, "compute.datumapis.com/instances"})
    writers = frozenset(controller_user(each) for each in ("deployment", "instance", POD_SCHEDULER))


class MachineHolding(HeldAnnotations):
    """Only the Instance controller sets the image of a virtual machine, once. Checks Pods and bindings.

    A node fetches the image that the annotation names with the node's own rights: from a local file, or from an address
    that the Pod's author cannot reach. A user able to write it could read any of these into a machine. The controller
    copies it from the catalogue, which administrators write. So a Pod of the class `vm` by any other user names no
    image, and the node rejects it. An Instance's annotations of these names are never passed on.
    """

    name = "MachineHolding"
    annotations = MACHINE_ANNOTATIONS
    buckets = frozenset({PODS})
    writers = frozenset({controller_user("instance")})
