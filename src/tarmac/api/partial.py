"""Partial decoding of encoded objects: the decoder skips undeclared fields, so a read takes microseconds.

Readers that need the same fields share these types. A reader that decodes every change of every pod, or keeps data per
pod, declares its own few fields instead, since each additional field costs time or memory there: the scheduler's
`podfacts`, the networks' `members`, the `podendpoint` that servers project.
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


class _Binding(Partial):
    node_name: str = ""


class _Phase(Partial):
    phase: str = ""


class Whereabouts(Partial):
    """The node of a Pod, and its phase."""

    spec: _Binding
    status: _Phase = msgspec.field(default_factory=_Phase)


whereabouts = msgspec.json.Decoder(Whereabouts).decode
"""The whereabouts of an encoded Pod."""
