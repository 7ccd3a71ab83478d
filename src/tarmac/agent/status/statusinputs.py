"""All inputs of a pod's status, so that computing it is a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.podclasses import NO_CLASSES, ClassesInEffect
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.api.schema import JsonObject


@dataclass(frozen=True, slots=True)
class PodTermination:
    """Reason why the node ended a pod. `condition` informs its controller, if set."""

    reason: str
    message: str
    condition: JsonObject | None = None


TOO_LONG: Final = PodTermination("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The state of one pod at one time."""

    pod: AgentPod
    seen: PodRuntimeState
    old: JsonObject
    """The previously computed status, or the API's."""
    now: float
    runtime: str
    """The scheme of container ids: `containerd`."""
    host_addresses: Sequence[str] = ()
    waiting: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Reason and message of containers that could not be started."""
    started: Mapping[str, bool] = field(default_factory=dict[str, bool])
    ready: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Results of startup and readiness probes by container id."""
    applied: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Resources that running containers have, by name."""
    given: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """Additional fields of container statuses, by name: allocated devices."""
    classes: ClassesInEffect = NO_CLASSES
    """The QoS classes in effect."""
    resizing: Sequence[JsonObject] = ()
    """Conditions of a resize in progress."""
    over: bool = False
    """No container runs or will run."""
    verdict: PodTermination | None = None
