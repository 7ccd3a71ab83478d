"""Everything a pod's status is worked out from, so that working it out is a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tarmac.agent.model.classes import NO_CLASSES, ClassesInEffect
from tarmac.agent.model.pod import Pod
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.api.schema import JsonObject


@dataclass(frozen=True, slots=True)
class PodTermination:
    """Why the node ended a pod. `condition` is one that tells its controller, if there is one."""

    reason: str
    message: str
    condition: JsonObject | None = None


TOO_LONG: Final = PodTermination("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """One moment of one pod."""

    pod: Pod
    seen: PodRuntimeState
    old: JsonObject
    """The status worked out before, or the API's."""
    now: float
    runtime: str
    """The scheme of container ids: `containerd`."""
    host_addresses: Sequence[str] = ()
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Reason and message of containers that could not be started."""
    started: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ready: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Outcomes of startup and readiness probes by container id."""
    applied: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Resources that running containers have, by name."""
    given: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """More fields of containers' statuses, by name: what they were given of the node's devices."""
    classes: ClassesInEffect = NO_CLASSES
    """In effect."""
    resizing: Sequence[JsonObject] = ()
    """Conditions of a resize under way."""
    over: bool = False
    """Nothing of it runs and nothing will."""
    verdict: PodTermination | None = None
