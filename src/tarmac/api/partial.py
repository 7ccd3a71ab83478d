"""Partial decoding of encoded objects: the decoder skips undeclared fields, so a read takes microseconds.

Readers that need the same fields share these views. A reader declares its own few fields where no other reader needs
them (container ports of endpoints, tolerations of evictions), or where it decodes every change of every pod or node or
keeps data per pod, since each additional field costs time or memory there: the scheduler's `podfacts`, the networks'
`members`, the `podendpoint` and `tunnelendpoint` that servers project, the server's `nodesummaries` and `nodegraph`.
"""

from __future__ import annotations

import msgspec

from tarmac.api.conditions import holds
from tarmac.api.kubernetes.core.pods.phases import TERMINAL


class Partial(msgspec.Struct, rename="camel"):
    """Some fields of an object, named as the API names them."""


class PartialMetadata(Partial):
    """Identity, labels, timestamps and generation."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0


class PartialCondition(Partial):
    """A condition. Its status is an arbitrary string: another program may have written it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PartialStatus(Partial):
    """Phase and conditions of an object."""

    phase: str = ""
    conditions: list[PartialCondition] | None = None

    @property
    def ended(self) -> bool:
        """True for a Pod in a terminal phase: no container of it runs or will run."""
        return self.phase in TERMINAL

    @property
    def ready(self) -> bool:
        """True if the condition Ready is True."""
        return holds(self.conditions, "Ready")


class PartialPod(Partial):
    """Identity, phase and conditions of a Pod."""

    metadata: PartialMetadata
    status: PartialStatus = msgspec.field(default_factory=PartialStatus)


class PartialNode(Partial):
    """Identity and conditions of a Node."""

    metadata: PartialMetadata
    status: PartialStatus = msgspec.field(default_factory=PartialStatus)


class ImageSourceView(msgspec.Struct):
    """The source of a machine image's specification, as pods are annotated with it."""

    class Source(msgspec.Struct):
        """The place of the file."""

        url: str = ""

    source: Source | None = None


class _Labels(Partial):
    labels: dict[str, str] | None = None


class _Annotations(Partial):
    annotations: dict[str, str] | None = None


class _Labelled(Partial):
    """The labels of an object of any kind, in half the time of its whole metadata: selectors read every entry."""

    metadata: _Labels


class _Annotated(Partial):
    """The annotations of an object of any kind."""

    metadata: _Annotations


class _Binding(Partial):
    node_name: str = ""


class _Phase(Partial):
    phase: str = ""


class Whereabouts(Partial):
    """The node of a Pod, and its phase."""

    spec: _Binding
    status: _Phase = msgspec.field(default_factory=_Phase)


partial_pod = msgspec.json.Decoder(PartialPod).decode
"""The view of an encoded Pod."""

partial_node = msgspec.json.Decoder(PartialNode).decode
"""The view of an encoded Node."""

image_sources = msgspec.json.Decoder(dict[str, ImageSourceView]).decode
"""The sources of encoded specifications by image."""

whereabouts = msgspec.json.Decoder(Whereabouts).decode
"""The whereabouts of an encoded Pod."""

_labelled = msgspec.json.Decoder(_Labelled).decode
_annotated = msgspec.json.Decoder(_Annotated).decode


def read_labels(encoded: bytes | msgspec.Raw) -> dict[str, str]:
    """Return the labels of an encoded object."""
    return _labelled(encoded).metadata.labels or {}


def read_annotations(encoded: bytes | msgspec.Raw) -> dict[str, str]:
    """Return the annotations of an encoded object."""
    return _annotated(encoded).metadata.annotations or {}
