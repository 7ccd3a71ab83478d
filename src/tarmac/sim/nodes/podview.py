"""A pod as a simulated node reads it: the fields that determine its behaviour and its resources."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.partial import Partial, PartialMetadata, PartialStatus
from tarmac.api.schema import JsonObject
from tarmac.sim.nodes.failingprobes import Probes

CRASH_LOOP = "CrashLoopBackOff"
_EMPTY = msgspec.Raw(b"{}")
_LIST = msgspec.Raw(b"[]")


class _Container(Probes):
    name: str
    image: str = ""
    resources: msgspec.Raw = _EMPTY
    resize_policy: msgspec.Raw = _LIST
    restart_policy: str = ""


class _Gate(Partial):
    condition_type: str


class _Spec(Partial):
    containers: list[_Container]
    resources: msgspec.Raw = _EMPTY
    overhead: msgspec.Raw = _EMPTY
    readiness_gates: list[_Gate] | None = None
    node_name: str = ""
    restart_policy: str = "Always"
    runtime_class_name: str = ""
    active_deadline_seconds: int | None = None
    init_containers: list[_Container] | None = None


class _Terminated(Partial):
    exit_code: int = 0
    reason: str = ""
    started_at: str = ""
    finished_at: str = ""


class _Waiting(Partial):
    reason: str = ""


class _State(Partial):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Partial):
    restart_count: int = 0
    state: _State | None = None
    last_state: _State | None = None


class SimPodStatus(PartialStatus):
    """The pod's last reported status."""

    phase: str = "Pending"
    container_statuses: list[_ContainerStatus] | None = None
    start_time: str = ""
    observed_generation: int = 0


class SimPod(Partial):
    """The fields of a pod that a node reads."""

    metadata: PartialMetadata
    spec: _Spec
    status: SimPodStatus


view_of = msgspec.json.Decoder(SimPod).decode


class _AskedContainer(msgspec.Struct, rename="camel"):
    name: str
    resources: msgspec.Raw
    resize_policy: msgspec.Raw
    restart_policy: str


class _Asked(msgspec.Struct, rename="camel"):
    """The resource requests in a spec."""

    containers: list[_AskedContainer]
    init_containers: list[_AskedContainer]
    resources: msgspec.Raw
    overhead: msgspec.Raw


@lru_cache(1024)
def _shared(asked: bytes) -> bytes:
    """Share the bytes among all pods of a template."""
    return asked


def asked_by(spec: _Spec) -> bytes:
    containers, initial = spec.containers, spec.init_containers or ()
    return _shared(
        msgspec.json.encode(
            _Asked(
                [_amounts(each) for each in containers],
                [_amounts(each) for each in initial],
                spec.resources,
                spec.overhead,
            )
        )
    )


def _amounts(container: _Container) -> _AskedContainer:
    return _AskedContainer(container.name, container.resources, container.resize_policy, container.restart_policy)


@lru_cache(1024)
def spec_of(asked: bytes) -> JsonObject:
    """Return the decoded form, shared by all pods of a template: do not modify it."""
    return _decode(asked)


_decode = msgspec.json.Decoder(JsonObject).decode


def loops(view: SimPod) -> bool:
    """Return True if a container waits in CrashLoopBackOff."""
    found = [each.state.waiting for each in view.status.container_statuses or () if each.state is not None]
    return any(each is not None and each.reason == CRASH_LOOP for each in found)


def addresses_of(interfaces: str) -> tuple[str, ...]:
    """Return the first address of each family that the control plane assigned to the pod."""
    found: dict[bool, str] = {}
    for interface in decode_interfaces(interfaces) if interfaces else ():
        for address in interface.addresses:
            found.setdefault(":" in address, address.partition("/")[0])
    return tuple(found.values())
