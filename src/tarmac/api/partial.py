"""Encoded objects read in part: the decoder skips what is not named, so that a look at an object costs microseconds.

Readers share these where they mean the same fields. One that looks at every change of every pod, or that keeps what it
read for each of them, names its own few fields instead, since each field more costs time or memory there: the
scheduler's `podfacts`, the networks' `members`, the `podendpoint` that servers project.
"""

from __future__ import annotations

import msgspec

from tarmac.api.conditions import holds
from tarmac.api.kubernetes.core.pods.phases import TERMINAL


class Partial(msgspec.Struct, rename="camel"):
    """Some fields of an object, named as the API names them."""


class PartialMetadata(Partial):
    """Whose it is, and since when."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0


class PartialCondition(Partial):
    """A condition. Its status is any text: another program may have written it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PartialStatus(Partial):
    """How far an object has come, and what is said about it."""

    phase: str = ""
    conditions: list[PartialCondition] | None = None

    @property
    def ended(self) -> bool:
        """Of a Pod: whether nothing of it runs, and nothing of it ever will."""
        return self.phase in TERMINAL

    @property
    def ready(self) -> bool:
        """Whether it says that it is."""
        return holds(self.conditions, "Ready")


class _Binding(Partial):
    node_name: str = ""


class _Phase(Partial):
    phase: str = ""


class Whereabouts(Partial):
    """The node that a Pod is on, and whether anything of it runs there."""

    spec: _Binding
    status: _Phase = msgspec.field(default_factory=_Phase)


whereabouts = msgspec.json.Decoder(Whereabouts).decode
"""The whereabouts of an encoded Pod."""
