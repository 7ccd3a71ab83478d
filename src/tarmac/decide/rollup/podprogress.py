"""The state of a Pod for its Instance: its progress, and the reason it is stuck.

Maps reasons of kubelets and schedulers to reasons of the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from tarmac.api.compute.names import ANNOTATION_UNSCHEDULABLE
from tarmac.api.declare import Struct
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding, most_actionable
from tarmac.decide.rollup.termination import NOT_STARTED, PANIC, Terminated, ending, how, last_lines
from tarmac.decide.verdict import Refusal

_NODE_NOT_READY: Final = "NodeNotReady"  # set by the node controller on pods of a silent or broken node
_IMAGE: Final = frozenset(
    [
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    ]
)
_CLASSES: Final = frozenset(
    [reasons.CLASS_UNAVAILABLE, reasons.CLASS_EXHAUSTED]
)  # nodes use the reasons of the catalogue
_STILL: Final = frozenset([reasons.MACHINE_PAUSED, reasons.DISK_FULL])  # of a machine that runs without making progress
_SOURCES: Final = "CreateContainerConfigError"  # raised before the runtime is called: keys, ConfigMaps, Secrets
_CONFIGURATION: Final = frozenset([_SOURCES, "CreateContainerError", "RunContainerError", "CreatePodSandboxError"])


class _Waiting(Struct):
    reason: str = ""
    message: str = ""


class _State(Struct):
    waiting: _Waiting | None = None
    running: dict[str, object] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, kw_only=True):
    """The state of one container."""

    name: str = ""
    state: _State | None = None
    last_state: _State | None = None
    restart_count: int = 0


class _Metadata(Struct):
    name: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Resources(Struct):
    limits: dict[str, str | int | float] = msgspec.field(default_factory=dict[str, str | int | float])


class _Container(Struct):
    name: str = ""
    resources: _Resources | None = None


class _Spec(Struct):
    node_name: str = ""
    resources: _Resources | None = None
    containers: list[_Container] = msgspec.field(default_factory=list[_Container])
    init_containers: list[_Container] = msgspec.field(default_factory=list[_Container])

    def memory_of(self, container: str) -> str:
        """Return the memory limit of a container, or else of the whole pod; empty without either."""
        own = next((each for each in (*self.containers, *self.init_containers) if each.name == container), None)
        limits = [each.limits for each in (own.resources if own else None, self.resources) if each is not None]
        return next((str(each["memory"]) for each in limits if "memory" in each), "")


class _Address(Struct):
    ip: str = ""


class PodStatus(Struct, kw_only=True):
    """The status that the node reports."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: list[_Address] = msgspec.field(name="podIPs", default_factory=list[_Address])
    qos_class: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list[Condition])
    init_container_statuses: list[ContainerStatus] = msgspec.field(default_factory=list[ContainerStatus])
    container_statuses: list[ContainerStatus] = msgspec.field(default_factory=list[ContainerStatus])


class InstancePod(Struct):
    """The part of a Pod that its Instance's status needs."""

    metadata: _Metadata
    spec: _Spec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


@dataclass(frozen=True, slots=True)
class PodProgress:
    """The progress of a Pod. The findings have the types of the Instance's conditions."""

    node: str
    programmed: Finding
    running: Finding
    ready: Finding
    restarts: int = 0
    qos_class: str = ""
    addresses: tuple[str, ...] = ()  # as reported by the node

    @staticmethod
    def of(pod: InstancePod) -> PodProgress:
        """Return the view of a decoded Pod."""
        status = pod.status
        conditions = {condition.type: condition for condition in status.conditions}
        return PodProgress(
            node=pod.spec.node_name,
            programmed=_programmed(pod, conditions),
            running=_running(pod),
            ready=_ready(conditions.get("Ready")),
            restarts=sum(container.restart_count for container in status.container_statuses),
            qos_class=status.qos_class,
            addresses=tuple(each.ip for each in status.pod_ips) or ((status.pod_ip,) if status.pod_ip else ()),
        )


_decode = msgspec.json.Decoder(InstancePod).decode


def read_pod(raw: bytes | msgspec.Raw) -> PodProgress:
    """Return the view of an encoded Pod."""
    return PodProgress.of(_decode(raw))


def _programmed(pod: InstancePod, conditions: dict[str, Condition]) -> Finding:
    if not pod.spec.node_name:
        scheduled = conditions.get("PodScheduled")
        if scheduled is None or scheduled.status != "False":
            return _not_yet("Programmed", reasons.PENDING_PROGRAMMING, "Waiting for a node.")
        return _not_yet("Programmed", _unschedulable(pod, scheduled), scheduled.message)
    sandbox = conditions.get("PodReadyToStartContainers")
    if sandbox.status == "True" if sandbox else pod.status.pod_ip:
        return Finding("Programmed", "True", reasons.PROGRAMMED, "Instance has been programmed")
    trouble = _trouble(pod)
    if trouble is not None:
        return _not_yet("Programmed", trouble.reason, trouble.message)
    return _not_yet("Programmed", reasons.PROGRAMMING_IN_PROGRESS, f"{pod.spec.node_name} is making it.")


def _unschedulable(pod: InstancePod, scheduled: Condition) -> str:
    """Return the reason why no node takes the pod, as `why` reports it too.

    As in Kubernetes, the Pod's condition says Unschedulable for every cause; our scheduler records the precise code in
    an annotation. Pods of other schedulers have none, so they get InsufficientCapacity.
    """
    noted = (scheduled.reason, pod.metadata.annotations.get(ANNOTATION_UNSCHEDULABLE, ""))
    precise = (each for each in noted if each in reasons.CATALOGUE and each != reasons.UNSCHEDULABLE)
    return next(precise, reasons.INSUFFICIENT_CAPACITY)


def _running(pod: InstancePod) -> Finding:
    trouble = _trouble(pod)
    if trouble is not None:
        return _not_yet("Running", trouble.reason, trouble.message)
    containers = pod.status.container_statuses
    if containers and all(container.state and container.state.running is not None for container in containers):
        return Finding("Running", "True", reasons.RUNNING, "Instance is running")
    ended = next((each for each in containers if each.state and each.state.terminated), None)
    if ended is not None and ended.state is not None and ended.state.terminated is not None:
        return _not_yet("Running", reasons.STOPPED, f"{ended.name} ended: {ending(ended.state.terminated)}.")
    return _not_yet("Running", reasons.STARTING, "Containers are starting.")


def _ready(condition: Condition | None) -> Finding:
    if condition is not None and condition.status == "True":
        return Finding("Ready", "True", reasons.RUNNING, "Instance is ready")
    message = condition.message if condition and condition.message else "It is not ready to serve."
    if condition is not None and condition.reason == _NODE_NOT_READY:
        return _not_yet("Ready", reasons.NODE_LOST, message)
    if condition is not None and condition.reason in _STILL:
        return _not_yet("Ready", condition.reason, message)
    return _not_yet("Ready", reasons.NOT_READY, message)


def _trouble(pod: InstancePod) -> Refusal | None:
    """Return the most actionable trouble that a container or the node reports."""
    status = pod.status
    containers = (*status.init_container_statuses, *status.container_statuses)
    found = [_container_trouble(each, pod.spec) for each in containers]
    if status.reason == reasons.NODE_LOST:
        found.append(Refusal(reasons.NODE_LOST, status.message))
    elif status.phase == "Failed" and status.reason in _CLASSES:
        found.append(Refusal(status.reason, status.message))
    elif status.phase == "Failed":
        found.append(Refusal(reasons.FAILED, f"{status.reason}: {status.message}" if status.reason else status.message))
    return most_actionable(refusal for refusal in found if refusal is not None)


def _container_trouble(container: ContainerStatus, spec: _Spec) -> Refusal | None:
    state = container.state or _State()
    waiting, ended = state.waiting, state.terminated
    if waiting is not None and waiting.reason == "CrashLoopBackOff":
        last = container.last_state.terminated if container.last_state else None
        # A status without the last termination was not written by a node agent.
        crash = Refusal(reasons.INSTANCE_CRASHING, f"{container.name}: {waiting.message}", container.name)
        return (_bad_end(container.name, last, spec) or _crash(container, last)) if last else crash
    if waiting is not None:
        reason, message = _waiting_reason(waiting), waiting.message or waiting.reason
        return Refusal(reason, f"{container.name}: {message}", container.name) if reason else None
    return _bad_end(container.name, ended, spec) if ended is not None else None


def _bad_end(name: str, ended: Terminated, spec: _Spec) -> Refusal | None:
    """Return a refusal for a known cause: out of memory, a panic, a failed machine, a program that could not start."""
    if ended.reason == "OOMKilled":
        limit = spec.memory_of(name)
        much = f"more than its {limit} of memory" if limit else "more memory than it has"
        return Refusal(reasons.OUT_OF_MEMORY, f"{name} used {much} ({how(ended)}).", name)
    if ended.reason == reasons.GUEST_PANICKED:
        return Refusal(reasons.GUEST_PANICKED, f"{name} panicked{_last_words(ended)}.", name)
    if ended.reason == reasons.MACHINE_FAILED:
        return Refusal(reasons.MACHINE_FAILED, f"{name} broke off ({how(ended)}){_last_words(ended)}.", name)
    if ended.reason in NOT_STARTED:
        return Refusal(reasons.CONFIGURATION_ERROR, f"{name}: {ended.message or ended.reason}", name)
    return None


def _last_words(ended: Terminated) -> str:
    lines = last_lines(ended.message, keep=PANIC)
    return f"; last lines: {lines}" if lines else ""


def _crash(container: ContainerStatus, last: Terminated) -> Refusal:
    message = f"container {container.name} keeps crashing: {ending(last)}"
    return Refusal(reasons.INSTANCE_CRASHING, message, container.name)


def _waiting_reason(waiting: _Waiting) -> str:
    if waiting.reason in _IMAGE:
        return reasons.IMAGE_UNAVAILABLE
    if waiting.reason in _CONFIGURATION:
        # "Executable file not found" is not a missing object.
        missing = waiting.reason == _SOURCES and "not found" in waiting.message
        return reasons.SOURCE_NOT_FOUND if missing else reasons.CONFIGURATION_ERROR
    return waiting.reason if waiting.reason in reasons.CATALOGUE else ""


def _not_yet(type: str, reason: str, message: str) -> Finding:
    return Finding(type, "False", reason, message)
