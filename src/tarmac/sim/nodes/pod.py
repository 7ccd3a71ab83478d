"""One pod on a simulated node: a state machine without a clock, and the status that each state shows.

    WAITING ──► RUNNING ──► (crash) BACKOFF ──► RUNNING …
       │           └──────► FAILED             (restartPolicy says no, its time is up, or it may not run here)
       ├──► BOOTING ──► RUNNING                (a virtual machine runs before it is ready)
       ├──► UNCONFIGURED ──► RUNNING           (once a ConfigMap or Secret is there that a container needs)
       └──► UNPULLABLE                         (stays until deleted)
    any ──► STOPPING ──► STOPPED               (its object is to be removed)

The fleet decides when a pod moves; the pod knows what that means.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from sys import intern

import msgspec

from tarmac.agent.status.containers import LOST_REASON
from tarmac.api.kubernetes.core.pods.podclasses import Classes
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.partial import Partial, PartialMetadata, PartialStatus
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.podentries import CPUS_ANNOTATION
from tarmac.sim.nodes.settings import HOST_THAT_NEVER_ANSWERS, OWN_ANNOTATIONS


class PodStage(Enum):
    """Where a pod is in its life."""

    WAITING = "waiting"
    UNPULLABLE = "unpullable"
    UNCONFIGURED = "unconfigured"
    BOOTING = "booting"
    RUNNING = "running"
    BACKOFF = "backoff"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


class _Container(Partial):
    name: str
    image: str = ""


class _Spec(Partial):
    containers: list[_Container]
    node_name: str = ""
    restart_policy: str = "Always"
    runtime_class_name: str = ""
    active_deadline_seconds: int | None = None
    init_containers: list[_Container] | None = None


class _ContainerStatus(Partial):
    restart_count: int = 0


class _Status(PartialStatus):
    phase: str = "Pending"
    container_statuses: list[_ContainerStatus] | None = None
    start_time: str = ""
    observed_generation: int = 0


class SimPod(Partial):
    """What a node reads of a pod."""

    metadata: PartialMetadata
    spec: _Spec
    status: _Status


view_of = msgspec.json.Decoder(SimPod).decode

_NONE: Mapping[str, str] = {}
_NO_CLASSES: tuple[Classes, Mapping[str, Classes]] = ({}, {})
_BEFORE = (PodStage.WAITING, PodStage.UNPULLABLE, PodStage.UNCONFIGURED)  # nothing has run
_KILLED = 137


@lru_cache(1024)
def _images(containers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Names and images of containers, kept once for all pods of a template."""
    return containers


class Termination:
    """How a container last ended."""

    __slots__ = ("code", "finished", "reason", "started")

    def __init__(self, code: int, reason: str, started: str, finished: str) -> None:
        self.code = code
        self.reason = reason
        self.started = started
        self.finished = finished

    def document(self) -> JsonObject:
        """As Kubernetes writes it."""
        return {
            "terminated": {
                "exitCode": self.code,
                "reason": self.reason,
                "startedAt": self.started,
                "finishedAt": self.finished,
            }
        }


class SimulatedPod:
    """The pod. `stage`, `restarts` and `last` are the truth about it, whatever the API says."""

    __slots__ = (
        "addresses", "annotations", "changed", "classes", "containers", "cpus", "deadline", "doomed", "generation",
        "initial", "labels", "last", "missing", "name", "namespace", "node", "refers", "restart_policy", "restarts",
        "runtime_class", "stage", "start_time", "started", "uid", "verdict", "whole",
    )  # fmt: skip

    def __init__(self, view: SimPod, now: str) -> None:
        metadata, spec = view.metadata, view.spec
        self.annotations: Mapping[str, str] = _NONE
        self.labels: dict[str, str] = {}
        self.generation = 0
        self.deadline: int | None = None  # seconds from its start time
        self.addresses: tuple[str, ...] = ()
        self.read(view)
        self.name = intern(metadata.name)
        self.namespace = intern(metadata.namespace)
        self.uid = intern(metadata.uid)
        self.node = intern(spec.node_name)
        self.containers = _images(tuple((each.name, each.image) for each in spec.containers))
        self.initial = _images(tuple((each.name, each.image) for each in spec.init_containers or ()))
        self.restart_policy = intern(spec.restart_policy)
        self.runtime_class = intern(spec.runtime_class_name)
        self.refers = False  # to objects that may be missing
        self.missing: Mapping[str, str] = _NONE  # what containers say that they lack, by name
        self.verdict: tuple[str, str] | None = None  # reason and message of a node that ended or refused it
        self.whole: JsonObject | None = None  # the object, for a node that looks at pods before it takes them
        self.cpus: Mapping[str, str] = _NONE  # that containers have to themselves
        self.classes: tuple[Classes, Mapping[str, Classes]] = _NO_CLASSES  # of the pod, and of its containers
        self.doomed = 0  # starts that are yet to go wrong
        self.restarts = sum(status.restart_count for status in view.status.container_statuses or ())
        self.stage = PodStage.WAITING
        self.start_time = intern(view.status.start_time or now)
        self.started = now
        self.changed = now  # when it last became ready, or ceased to be
        self.last: Termination | None = None

    def read(self, view: SimPod) -> None:
        """Take over what may change while it runs. Thousands of pods have the same labels: each text is kept once."""
        annotations, labels = view.metadata.annotations or {}, view.metadata.labels or {}
        own = {name: value for name, value in annotations.items() if name.startswith(OWN_ANNOTATIONS)}
        self.annotations = own or _NONE
        if not self.addresses:  # they are given once, and may come after the binding
            self.addresses = _addresses(annotations.get(ANNOTATION_INTERFACES, ""))
        self.generation = view.metadata.generation
        self.deadline = view.spec.active_deadline_seconds
        self.labels = {intern(name): intern(value) for name, value in labels.items()}

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def runs(self) -> bool:
        """Whether its processes exist."""
        return self.stage in (PodStage.BOOTING, PodStage.RUNNING, PodStage.STOPPING)

    @property
    def is_machine(self) -> bool:
        """Whether it is a virtual machine."""
        return self.runtime_class == MACHINE_CLASS

    @property
    def pullable(self) -> bool:
        """Whether every image can be had."""
        return not any(
            image.partition("/")[0].partition(":")[0].endswith(HOST_THAT_NEVER_ANSWERS)
            for _, image in (*self.initial, *self.containers)
        )

    def begin(self, now: str) -> None:
        """Its containers start, for the first time or again."""
        self.stage, self.started = PodStage.RUNNING, now
        # A restart at once leaves it ready, as on a real node: only the count of restarts tells of it.
        if self.last is None or self.changed >= self.last.finished:
            self.changed = now

    def boot(self, now: str) -> None:
        """Its machine starts, and is not ready yet."""
        self.stage = PodStage.BOOTING
        self.started = self.changed = now

    def booted(self, now: str) -> None:
        """Its machine is ready."""
        self.stage, self.changed = PodStage.RUNNING, now

    def end(self, code: int, reason: str, now: str) -> bool:
        """Its containers end; whether they are to start again, the first time at once."""
        self.last = Termination(code, reason, self.started, now)
        restarts = self.restart_policy == "Always" or (self.restart_policy == "OnFailure" and code != 0)
        if self.restarts or not restarts:
            self.changed = now
        self.stage = PodStage.BACKOFF if restarts else PodStage.FAILED
        return restarts

    def lose(self, now: str) -> None:
        """Its processes went with the node's power: nobody saw how they ended."""
        self.last = Termination(_KILLED, LOST_REASON, self.started, now)

    def lack(self, missing: Mapping[str, str]) -> bool:
        """It cannot start yet: these containers say why, or none does; whether that is news."""
        stage = PodStage.UNCONFIGURED if missing else PodStage.WAITING
        known = (self.stage, self.missing) == (stage, missing)
        self.stage, self.missing = stage, missing or _NONE
        return not known

    def give_up(self, reason: str, message: str, now: str) -> None:
        """Its node ends it, or does not take it at all."""
        if self.runs:
            self.last = Termination(_KILLED, "Error", self.started, now)
        self.stage, self.changed, self.verdict = PodStage.FAILED, now, (reason, message)

    def status(self, host: str) -> JsonObject:
        """What the node reports, as a strategic merge patch of the pod's status."""
        ready = self.stage is PodStage.RUNNING
        status: JsonObject = {
            "phase": self._phase(),
            "startTime": self.start_time,
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "conditions": self._conditions(ready),
            "observedGeneration": self.generation,
        }
        if self.verdict is not None:
            status["reason"], status["message"] = self.verdict
        if self.verdict is None or self.last is not None:
            status["containerStatuses"] = [self._container(name, image, ready) for name, image in self.containers]
            if self.initial:
                status["initContainerStatuses"] = [self._initial(name, image) for name, image in self.initial]
        if self.addresses and self.stage is not PodStage.UNPULLABLE:
            status |= {"podIP": self.addresses[0], "podIPs": [{"ip": address} for address in self.addresses]}
        if self.classes[0] and self.runs:
            status["resources"] = {"classes": self.classes[0]}
        metadata: JsonObject = {"uid": self.uid}
        if self.cpus:
            metadata["annotations"] = {CPUS_ANNOTATION: msgspec.json.encode(self.cpus).decode()}
        return {"metadata": metadata, "status": status}

    def _phase(self) -> str:
        if self.stage is PodStage.FAILED:
            return "Failed"
        return "Pending" if self.stage in _BEFORE else "Running"

    def _conditions(self, ready: bool) -> list[JsonObject]:
        reason: JsonObject = {} if ready else {"reason": "ContainersNotReady", "message": self._unready()}
        made = "False" if self.stage in (PodStage.WAITING, PodStage.UNPULLABLE) else "True"
        found = [
            _condition("PodReadyToStartContainers", made, self.start_time),
            _condition("Initialized", str(self._initialized), self.start_time),
            _condition("ContainersReady", str(ready), self.changed) | reason,
            _condition("Ready", str(ready), self.changed) | reason,
        ]
        return [each | {"observedGeneration": self.generation} for each in found]

    @property
    def _initialized(self) -> bool:
        return not any(name in self.missing for name, _ in self.initial)

    def _unready(self) -> str:
        return f"containers with unready status: [{' '.join(name for name, _ in self.containers)}]"

    def _container(self, name: str, image: str, ready: bool) -> JsonObject:
        state: JsonObject = {"running": {"startedAt": self.started}}
        if self.stage is PodStage.UNPULLABLE:
            state = _waiting("ImagePullBackOff", f'Back-off pulling image "{image}"')
        elif self.stage is PodStage.UNCONFIGURED:
            state = self._lacking(name)
        elif self.stage is PodStage.BACKOFF:
            state = _waiting("CrashLoopBackOff", f"back-off restarting failed container={name} pod={self.name}")
        elif self.stage is PodStage.WAITING:
            state = _waiting("ContainerCreating", "")
        elif self.stage is PodStage.FAILED and self.last is not None:
            state = self.last.document()
        made: JsonObject = {
            "name": name,
            "image": image,
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": self.restarts,
            "state": state,
        }
        if self.runs or self.stage is PodStage.BACKOFF:
            made |= {"imageID": f"sim://{image}", "containerID": f"sim://{self.uid}-{name}-{self.restarts}"}
        if self.runs and (classes := self.classes[1].get(name)):
            made["resources"] = {"classes": classes}
        if self.last is not None and self.stage is not PodStage.FAILED:
            made["lastState"] = self.last.document()
        return made

    def _initial(self, name: str, image: str) -> JsonObject:
        done = _done(name, image, self.start_time)
        if self._initialized:
            return done
        return done | {"imageID": "", "ready": False, "state": self._lacking(name)}

    def _lacking(self, name: str) -> JsonObject:
        if name in self.missing:
            return _waiting("CreateContainerConfigError", self.missing[name])
        return _waiting("ContainerCreating" if self._initialized else "PodInitializing", "")


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


def _addresses(interfaces: str) -> tuple[str, ...]:
    """The first address of each family that the control plane gave to the pod."""
    found: dict[bool, str] = {}
    for interface in decode_interfaces(interfaces) if interfaces else ():
        for address in interface.addresses:
            found.setdefault(":" in address, address.partition("/")[0])
    return tuple(found.values())
