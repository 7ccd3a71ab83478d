"""State machine of one pod on a simulated node, without a clock, and the status for each state.

    WAITING ──► RUNNING ──► (crash) BACKOFF ──► RUNNING …
       │           └──────► ENDED              (restartPolicy forbids it, deadline exceeded, or rejected by the node)
       ├──► BOOTING ──► RUNNING                (a virtual machine runs before it is ready)
       ├──► UNCONFIGURED ──► RUNNING           (once a ConfigMap or Secret exists that a container needs)
       └──► UNPULLABLE ──► RUNNING             (once its image can be pulled)
    any ──► STOPPING ──► STOPPED               (its object is being deleted)

The fleet triggers the transitions; the pod implements them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from sys import intern

import msgspec

from tarmac.agent.allocation.promises import PodPromises
from tarmac.agent.model.allotment import Postponed
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.containerstatuses import LOST_REASON
from tarmac.agent.status.podconditions import readiness
from tarmac.api.compute.names import ANNOTATION_MACHINE_IMAGES
from tarmac.api.kubernetes.core.pods.podclasses import Classes
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.allocatable.podentries import CPUS_ANNOTATION
from tarmac.sim.nodes.failingprobes import FailingProbe, failing_probes
from tarmac.sim.nodes.podview import CRASH_LOOP, SimPod, SimPodStatus, addresses_of, asked_by, spec_of
from tarmac.sim.nodes.settings import BACKOFF_RESET_SECONDS, OWN_ANNOTATIONS
from tarmac.sim.nodes.unpullableimages import machine_faults, pull_faults


class PodStage(Enum):
    """Lifecycle states of a simulated pod."""

    WAITING = "waiting"
    UNPULLABLE = "unpullable"
    UNCONFIGURED = "unconfigured"
    BOOTING = "booting"
    RUNNING = "running"
    BACKOFF = "backoff"
    ENDED = "ended"
    STOPPING = "stopping"
    STOPPED = "stopped"


_NONE: Mapping[str, str] = {}
_NO_CLASSES: tuple[Classes, Mapping[str, Classes]] = ({}, {})
_BEFORE = (PodStage.WAITING, PodStage.UNPULLABLE, PodStage.UNCONFIGURED)  # no container has run
_KILLED = 137
_READ_ANNOTATIONS = (OWN_ANNOTATIONS, ANNOTATION_MACHINE_IMAGES)
_OPTIONAL = ("reason", "message", "podIP", "podIPs", "resources", "initContainerStatuses")
"""Optional fields of a status: set to null explicitly, since a merge patch would keep the old values."""


@lru_cache(1024)
def _images(containers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Names and images of containers, shared by all pods of a template."""
    return containers


class Termination:
    """The last termination of a container."""

    __slots__ = ("code", "finished", "reason", "started")

    def __init__(self, code: int, reason: str, started: str, finished: str) -> None:
        self.code = code
        self.reason = reason
        self.started = started
        self.finished = finished

    def document(self) -> JsonObject:
        """Return the Kubernetes form."""
        return {
            "terminated": {
                "exitCode": self.code,
                "reason": self.reason,
                "startedAt": self.started,
                "finishedAt": self.finished,
            }
        }


class SimulatedPod:
    """The pod. `stage`, `restarts` and `last` are its true state, regardless of the API."""

    __slots__ = (
        "addresses", "annotations", "asked", "changed", "classes", "containers", "cpus", "crashes", "deadline",
        "doomed", "failing", "gated", "gated_since", "gates", "generation", "held", "initial", "labels", "last",
        "missing", "name", "namespace", "node", "postponed", "postponed_since", "pulls", "refers", "restart_policy",
        "restarts", "runtime_class", "stage", "start_time", "started", "uid", "verdict", "whole",
    )  # fmt: skip

    def __init__(self, view: SimPod, now: str) -> None:
        metadata, spec = view.metadata, view.spec
        self.annotations: Mapping[str, str] = _NONE
        self.labels: dict[str, str] = {}
        self.generation = 0
        self.deadline: int | None = None  # seconds from its start time
        self.addresses: tuple[str, ...] = ()
        self.asked = b""  # resources that its spec requests, as `_Asked`
        self.gates: tuple[str, ...] = ()
        self.gated: tuple[tuple[str, str], ...] = ()  # conditions that its readiness gates wait for
        self.failing: tuple[FailingProbe, ...] = ()
        self.read(view)
        self.held = self.asked  # resources that the node has allocated to it
        self.postponed: Postponed | None = None  # reason why it cannot get the requested resources now
        self.postponed_since = ""
        self.gated_since = ""  # when a readiness gate last changed
        self.name = intern(metadata.name)
        self.namespace = intern(metadata.namespace)
        self.uid = intern(metadata.uid)
        self.node = intern(spec.node_name)
        self.initial = _images(tuple((each.name, each.image) for each in spec.init_containers or ()))
        self.restart_policy = intern(spec.restart_policy)
        self.runtime_class = intern(spec.runtime_class_name)
        self.refers = False  # to objects that may be missing
        self.missing: Mapping[str, str] = _NONE  # missing objects, as containers report them, by container name
        self.verdict: tuple[str, str] | None = None  # reason and message of the node that ended or rejected it
        self.whole: JsonObject | None = None  # the full object, for a node that checks pods at admission
        self.cpus: Mapping[str, str] = _NONE  # exclusive CPUs by container
        self.classes: tuple[Classes, Mapping[str, Classes]] = _NO_CLASSES  # of the pod, and of its containers
        self.doomed = 0  # number of starts that are still to fail
        self.pulls = 0  # attempts to pull an unavailable image
        self.restarts = max((each.restart_count for each in view.status.container_statuses or ()), default=0)
        self.crashes = self.restarts  # in a row, for the back-off
        self.stage = PodStage.WAITING
        self.start_time = intern(view.status.start_time or now)
        self.started = now
        self.changed = now  # when it last became ready or unready
        self.last: Termination | None = _last(view.status)

    def read(self, view: SimPod) -> None:
        """Update the fields that may change while it runs.

        Strings are interned: thousands of pods have the same labels.
        """
        annotations, labels = view.metadata.annotations or {}, view.metadata.labels or {}
        own = {name: value for name, value in annotations.items() if name.startswith(_READ_ANNOTATIONS)}
        self.annotations = own or _NONE
        if not self.addresses:  # assigned once, maybe after the binding
            self.addresses = addresses_of(annotations.get(ANNOTATION_INTERFACES, ""))
        if self.generation != view.metadata.generation or not self.asked:
            self.asked = asked_by(view.spec)
            self.containers = _images(tuple((each.name, each.image) for each in view.spec.containers))
            self.gates = tuple(intern(each.condition_type) for each in view.spec.readiness_gates or ())
        self.generation = view.metadata.generation
        self.deadline = view.spec.active_deadline_seconds
        self.failing = failing_probes(self.annotations, view.spec.containers)
        if self.gates:
            found = view.status.conditions or ()
            self.gated = tuple((each.type, each.status) for each in found if each.type in self.gates)
        self.labels = {intern(name): intern(value) for name, value in labels.items()}

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def runs(self) -> bool:
        """True if its processes exist."""
        return self.stage in (PodStage.BOOTING, PodStage.RUNNING, PodStage.STOPPING)

    @property
    def is_machine(self) -> bool:
        """True if it is a virtual machine."""
        return self.runtime_class == MACHINE_CLASS

    @property
    def containers_ready(self) -> bool:
        """True if its containers run and no probe fails."""
        return self.stage is PodStage.RUNNING and not any(each.keeps_unready for each in self.failing)

    @property
    def ready(self) -> bool:
        """True if it is Ready: its containers are, and its readiness gates hold."""
        return self.containers_ready and not readiness(self.gates, dict(self.gated))

    def as_pod(self, amounts: bytes) -> AgentPod:
        """Return the pod in the form that the agent's resource rules read."""
        metadata = {"uid": self.uid, "name": self.name, "namespace": self.namespace, "generation": self.generation}
        return AgentPod({"metadata": metadata, "spec": spec_of(amounts)})

    def begin(self, now: str) -> None:
        """Start its containers, for the first time or again."""
        self.stage, self.started = PodStage.RUNNING, now
        # An immediate restart leaves it ready, as on a real node: only the restart count shows it.
        if self.last is None or self.changed >= self.last.finished:
            self.changed = now

    def boot(self, now: str) -> None:
        """Start its virtual machine, which is not ready yet."""
        self.stage = PodStage.BOOTING
        self.started = self.changed = now

    def booted(self, now: str) -> None:
        """Mark its virtual machine as ready."""
        self.stage, self.changed = PodStage.RUNNING, now

    def end(self, code: int, reason: str, now: str) -> bool:
        """End its containers. Return True if they are to be restarted (the first time without back-off)."""
        self.last = Termination(code, reason, self.started, now)
        if parse_rfc3339(now) - parse_rfc3339(self.started) > BACKOFF_RESET_SECONDS:
            self.crashes = 0
        restarts = self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and code != 0)
        if self.crashes or not restarts:
            self.changed = now
        self.stage = PodStage.BACKOFF if restarts else PodStage.ENDED
        return restarts

    def lose(self, now: str) -> None:
        """Record that its processes were lost with the node's power, without an exit status."""
        self.last = Termination(_KILLED, LOST_REASON, self.started, now)

    def lack(self, missing: Mapping[str, str]) -> bool:
        """Record that it cannot start yet, with the error per container, if any. Return True if that is new."""
        stage = PodStage.UNCONFIGURED if missing else PodStage.WAITING
        known = (self.stage, self.missing) == (stage, missing)
        self.stage, self.missing = stage, missing or _NONE
        return not known

    def postpone(self, why: Postponed | None, now: str) -> None:
        """Record why it has to wait for the requested resources; None: it does not."""
        if why is not None and self.postponed is None:
            self.postponed_since = now
        self.postponed = why

    def replace(self, now: str) -> None:
        """Kill and restart its containers at once, for a changed definition."""
        self.last = Termination(_KILLED, "Error", self.started, now)
        self.restarts += 1
        self.stage, self.started, self.changed = PodStage.RUNNING, now, now

    def pull_faults(self) -> Mapping[str, str]:
        """Return the containers with an unavailable image, and the error. Images of machines come from no registry."""
        if self.is_machine:
            return machine_faults(self.containers, self.annotations.get(ANNOTATION_MACHINE_IMAGES, "{}"))
        return pull_faults((*self.initial, *self.containers))

    def cannot_pull(self, faults: Mapping[str, str]) -> None:
        """Record the containers with an unavailable image, and the errors."""
        self.stage, self.missing = PodStage.UNPULLABLE, faults
        self.pulls += 1

    def give_up(self, reason: str, message: str, now: str) -> None:
        """Fail the pod: its node ends it, or rejects it."""
        if self.runs:
            self.last = Termination(_KILLED, "Error", self.started, now)
        self.stage, self.changed, self.verdict = PodStage.ENDED, now, (reason, message)

    def status(self, host: str) -> JsonObject:
        """Return the node's report, as a strategic merge patch of the pod's status."""
        status: JsonObject = {
            **dict.fromkeys(_OPTIONAL),
            "phase": self._phase(),
            "startTime": self.start_time,
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "conditions": self._conditions(),
            "observedGeneration": self.generation,
        }
        if self.verdict is not None:
            status["reason"], status["message"] = self.verdict
        if self.verdict is None or self.last is not None:
            has = {each["name"]: each.get("resources") or {} for each in spec_of(self.held)["containers"]}
            status["containerStatuses"] = [
                self._container(name, image, has.get(name, {})) for name, image in self.containers
            ]
            if self.initial:
                status["initContainerStatuses"] = [self._initial(name, image) for name, image in self.initial]
        if self.addresses:
            status |= {"podIP": self.addresses[0], "podIPs": [{"ip": address} for address in self.addresses]}
        if self.classes[0] and self.runs:
            status["resources"] = {"classes": self.classes[0]}
        metadata: JsonObject = {"uid": self.uid}
        if self.cpus:
            metadata["annotations"] = {CPUS_ANNOTATION: msgspec.json.encode(self.cpus).decode()}
        return {"metadata": metadata, "status": status}

    def _phase(self) -> str:
        if self.stage is PodStage.ENDED:
            return "Succeeded" if self._succeeded else "Failed"
        return "Pending" if self.stage in _BEFORE else "Running"

    def _conditions(self) -> list[JsonObject]:
        ready = self.containers_ready
        unready: JsonObject = {} if ready else {"reason": "ContainersNotReady", "message": self._unready()}
        if self._succeeded:
            unready = {"reason": "PodCompleted"}
        waits = readiness(self.gates, dict(self.gated))
        gated: JsonObject = {"reason": "ReadinessGatesNotReady", "message": waits} if waits else {}
        made = "False" if self.stage is PodStage.WAITING else "True"
        found = [
            _condition("PodReadyToStartContainers", made, self.start_time),
            _condition("Initialized", str(self._initialized), self.start_time),
            _condition("ContainersReady", str(ready), self.changed) | unready,
            _condition("Ready", str(self.ready), max(self.changed, self.gated_since)) | (unready or gated),
        ]
        return [*(each | {"observedGeneration": self.generation} for each in found), *self._resizing()]

    def _resizing(self) -> list[JsonObject]:
        """Return the condition of a postponed resize, or the patch that deletes it."""
        if self.postponed is None:
            return [{"$patch": "delete", "type": "PodResizePending"}]
        promises = PodPromises(self.as_pod(self.held))
        promises.postponed = self.postponed
        return [
            each | {"lastTransitionTime": self.postponed_since}
            for each in promises.conditions(self.as_pod(self.asked), {})
        ]

    @property
    def _succeeded(self) -> bool:
        ended = self.stage is PodStage.ENDED and self.verdict is None
        return ended and self.last is not None and self.last.code == 0

    @property
    def _initialized(self) -> bool:
        return not any(name in self.missing for name, _ in self.initial)

    def _unready(self) -> str:
        return f"containers with unready status: [{' '.join(name for name, _ in self.containers)}]"

    def _container(self, name: str, image: str, has: JsonObject) -> JsonObject:
        running, failing = self.stage is PodStage.RUNNING, [each for each in self.failing if each.container == name]
        made: JsonObject = {
            "name": name,
            "image": image,
            "imageID": "",
            "ready": running and not any(each.keeps_unready for each in failing),
            "started": running and not any(each.kind == "startup" for each in failing),
            "restartCount": self.restarts,
            "state": self._state(name),
        }
        if self.runs or self.stage is PodStage.BACKOFF:
            made |= {"imageID": f"sim://{image}", "containerID": f"sim://{self.uid}-{name}-{self.restarts}"}
            made |= _given(has, self.classes[1].get(name) if self.runs else None)
        if self.last is not None and self.stage is not PodStage.ENDED:
            made["lastState"] = self.last.document()
        return made

    def _state(self, name: str) -> JsonObject:
        if self.stage in (PodStage.UNPULLABLE, PodStage.UNCONFIGURED):
            return self._lacking(name)
        if self.stage is PodStage.BACKOFF:
            return _waiting(CRASH_LOOP, f"back-off restarting failed container={name} pod={self.name}")
        if self.stage is PodStage.WAITING:
            return _waiting("ContainerCreating", "")
        if self.stage is PodStage.ENDED and self.last is not None:
            return self.last.document()
        return {"running": {"startedAt": self.started}}

    def _initial(self, name: str, image: str) -> JsonObject:
        done = _done(name, image, self.start_time)
        if self._initialized:
            return done
        return done | {"imageID": "", "ready": False, "state": self._lacking(name)}

    def _unpulled(self, name: str) -> JsonObject:
        if self.pulls == 1:
            return _waiting("ErrImagePull", self.missing[name])
        image = next(image for each, image in (*self.initial, *self.containers) if each == name)
        message = f'Back-off pulling image "{image}": ErrImagePull: {self.missing[name]}'
        return _waiting("ImagePullBackOff", message)

    def _lacking(self, name: str) -> JsonObject:
        if name in self.missing and self.stage is PodStage.UNPULLABLE:
            return self._unpulled(name)
        if name in self.missing:
            return _waiting("CreateContainerConfigError", self.missing[name])
        return _waiting("ContainerCreating" if self._initialized else "PodInitializing", "")


def _given(has: JsonObject, classes: Classes | None) -> JsonObject:
    """Return the allocated and the actual resources of a container."""
    shown: JsonObject = {side: has[side] for side in ("limits", "requests") if has.get(side)}
    shown |= {"classes": classes} if classes else {}
    allocated: JsonObject = {"allocatedResources": has["requests"]} if has.get("requests") else {}
    return {**allocated, **({"resources": shown} if shown else {})}


def _last(status: SimPodStatus) -> Termination | None:
    """Return the last termination from the status of a pod that the node already had."""
    for each in status.container_statuses or ():
        ended = each.last_state.terminated if each.last_state is not None else None
        if ended is not None:
            return Termination(ended.exit_code, ended.reason, ended.started_at, ended.finished_at)
    return None


def _condition(kind: str, status: str, since: str) -> JsonObject:
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": None, "message": None}


def _waiting(reason: str, message: str) -> JsonObject:
    return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}


def _done(name: str, image: str, when: str) -> JsonObject:
    return {
        "name": name,
        "image": image,
        "imageID": f"sim://{image}",
        "ready": True,
        "started": False,
        "restartCount": 0,
        "state": Termination(0, "Completed", when, when).document(),
    }
