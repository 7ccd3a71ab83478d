"""The view of an Instance for rollout and roll-up: a few facts, read without decoding the rest of the object.

A city may hold thousands of instances, and every change of one makes its deployment evaluate all of them, so the view
is kept small. `read_instance` takes the encoded object; `InstanceView.of` takes a decoded one.
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


class _Machine(Struct):
    running: bool = True


class _Runtime(Struct):
    virtual_machine: _Machine | None = None


class _Spec(Struct):
    controller: InstanceController | None = None
    runtime: _Runtime = msgspec.field(default_factory=_Runtime)


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
    """One instance. `template_hash` names its template, `observed_hash` the template that runs.

    `since` is the time it stopped being ready, `ready_since` the time it became ready; the one that does not apply, or
    is unknown, is 0. `stopped` means a machine that should be stopped.
    """

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
    stopped: bool = False

    @property
    def settled(self) -> bool:
        """True if nothing is left to wait for: the instance is ready, or should not run."""
        return self.ready or self.stopped

    @staticmethod
    def of(instance: InstanceFacts | Instance) -> InstanceView:
        """Return the view of a decoded object.

        Strings are interned, since thousands of instances have the same texts.
        """
        status, controller = instance.status, instance.spec.controller
        conditions = status.conditions if status else ()
        ready, programmed = find(conditions, "Ready"), find(conditions, "Programmed")
        observed = status.controller if status else None
        machine = instance.spec.runtime.virtual_machine
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
            stopped=machine is not None and not machine.running,
        )


_decode = msgspec.json.Decoder(InstanceFacts).decode


def read_instance(raw: bytes | msgspec.Raw) -> InstanceView:
    """Return the view of an encoded Instance."""
    return InstanceView.of(_decode(raw))


def _ordinal(label: str) -> int:
    return int(label) if label.isascii() and label.isdecimal() else NO_ORDINAL


def _moment(condition: Condition | None, *, holds: bool) -> float:
    """Return the time when the condition began to hold, or ceased to (`holds` False); 0 if the opposite is the case."""
    if condition is None or (condition.status == "True") != holds or condition.last_transition_time is None:
        return 0
    return parse_rfc3339(condition.last_transition_time)
