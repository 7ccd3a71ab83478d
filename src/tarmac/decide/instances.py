"""An Instance as rollout and roll-up see it: a few facts, read without decoding the rest of the object.

A city may hold thousands of instances and every change of one makes its deployment look at all of them, so what is
read here is kept narrow. `read_instance` takes the encoded object; `InstanceView.of` takes a decoded one.
"""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from tarmac.api.compute.instance import Instance, InstanceController, ObservedController
from tarmac.api.compute.names import LABEL_INSTANCE_INDEX
from tarmac.api.conditions import find
from tarmac.api.declare import Struct
from tarmac.api.shared import Condition, Labels
from tarmac.base.clock import parse_rfc3339
from tarmac.decide import reasons

NO_ORDINAL: Final = -1


class _Metadata(Struct):
    name: str
    deletion_timestamp: str | None = None
    labels: Labels = {}  # noqa: RUF012 - msgspec copies it


class _Spec(Struct):
    controller: InstanceController | None = None


class _Status(Struct):
    conditions: list[Condition] = []  # noqa: RUF012 - msgspec copies it
    controller: ObservedController | None = None
    restarts: int = 0


class InstanceFacts(Struct):
    """The part of an Instance that decisions about its deployment need."""

    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


class InstanceView(msgspec.Struct, frozen=True, gc=False):
    """One instance. `template_hash` names its template, `observed_hash` the template that runs. `since` is the time
    it stopped being ready, `ready_since` the time it became ready; 0 for the other of the two, or if unknown."""

    name: str
    ordinal: int
    template_hash: str
    ready: bool = False
    deleting: bool = False
    programmed: bool = False
    observed_hash: str = ""
    reason: str = reasons.PENDING
    message: str = ""
    since: float = 0
    ready_since: float = 0
    restarts: int = 0

    @staticmethod
    def of(instance: InstanceFacts | Instance) -> InstanceView:
        """The view of a decoded object. Thousands say the same: each text is kept once."""
        status, controller = instance.status, instance.spec.controller
        conditions = status.conditions if status else ()
        ready, programmed = find(conditions, "Ready"), find(conditions, "Programmed")
        observed = status.controller if status else None
        return InstanceView(
            name=intern(instance.metadata.name),
            ordinal=_ordinal(instance.metadata.labels.get(LABEL_INSTANCE_INDEX, "")),
            template_hash=intern(controller.template_hash) if controller else "",
            ready=ready is not None and ready.status == "True",
            deleting=instance.metadata.deletion_timestamp is not None,
            programmed=programmed is not None and programmed.status == "True",
            observed_hash=intern(observed.observed_template_hash) if observed else "",
            reason=intern(ready.reason) if ready else reasons.PENDING,
            message=intern(ready.message) if ready else "",
            since=_moment(ready, holds=False),
            ready_since=_moment(ready, holds=True),
            restarts=status.restarts if status else 0,
        )


_decode = msgspec.json.Decoder(InstanceFacts).decode


def read_instance(raw: bytes | msgspec.Raw) -> InstanceView:
    """The view of an encoded Instance."""
    return InstanceView.of(_decode(raw))


def _ordinal(label: str) -> int:
    return int(label) if label.isascii() and label.isdecimal() else NO_ORDINAL


def _moment(condition: Condition | None, *, holds: bool) -> float:
    """When the condition began to hold, or ceased to; 0 if it is the other way round."""
    if condition is None or (condition.status == "True") != holds or condition.last_transition_time is None:
        return 0
    return parse_rfc3339(condition.last_transition_time)
