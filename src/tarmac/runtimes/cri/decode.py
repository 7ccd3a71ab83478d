"""Conversion from CRI messages to the interface's types. Pure."""

from __future__ import annotations

import msgspec

from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.interface import (
    ContainerState,
    Image,
    PodIdentity,
    RuntimeClasses,
    RuntimeClassType,
    RuntimeContainer,
    RuntimeSandbox,
    RuntimeUsage,
)
from tarmac.runtimes.labels import SANDBOX_ID

_NANOSECONDS = 1e9
_STATES: dict[int, ContainerState] = {
    pb.CONTAINER_CREATED: "created",
    pb.CONTAINER_RUNNING: "running",
    pb.CONTAINER_EXITED: "exited",
    pb.CONTAINER_UNKNOWN: "unknown",
}


def listed_sandbox(item: pb.PodSandbox) -> RuntimeSandbox:
    """Decode a sandbox of a list: without addresses."""
    return RuntimeSandbox(
        id=item.id,
        pod=_pod(item.metadata),
        ready=item.state == pb.SANDBOX_READY,
        created_at=item.created_at / _NANOSECONDS,
        handler=item.runtime_handler,
        labels=dict(item.labels),
        annotations=dict(item.annotations),
    )


def sandbox(status: pb.PodSandboxStatus) -> RuntimeSandbox:
    """Decode the full status of a sandbox."""
    network = status.network
    return RuntimeSandbox(
        id=status.id,
        pod=_pod(status.metadata),
        ready=status.state == pb.SANDBOX_READY,
        created_at=status.created_at / _NANOSECONDS,
        handler=status.runtime_handler,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        addresses=(network.ip, *(each.ip for each in network.additional_ips)) if network.ip else (),
        classes=dict(status.class_resources.classes),
    )


def listed_container(item: pb.Container) -> RuntimeContainer:
    """Decode a container of a list: without times, exit code and the like."""
    return RuntimeContainer(
        id=item.id,
        sandbox_id=item.pod_sandbox_id,
        name=item.metadata.name,
        attempt=item.metadata.attempt,
        state=_STATES[item.state],
        image=item.image.image,
        image_id=item.image_ref,
        labels=dict(item.labels),
        annotations=dict(item.annotations),
        created_at=item.created_at / _NANOSECONDS,
    )


def container(status: pb.ContainerStatus) -> RuntimeContainer:
    """Decode the full status of a container."""
    user = status.user.linux
    return RuntimeContainer(
        id=status.id,
        sandbox_id=status.labels.get(SANDBOX_ID, ""),
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=_STATES[status.state],
        image=status.image.image,
        image_id=status.image_ref,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        created_at=status.created_at / _NANOSECONDS,
        started_at=status.started_at / _NANOSECONDS,
        finished_at=status.finished_at / _NANOSECONDS,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        log_path=status.log_path,
        user=(user.uid, user.gid, tuple(user.supplemental_groups)) if status.HasField("user") else None,
        classes=dict(status.class_resources.classes),
    )


def classes(status: pb.RuntimeStatus) -> RuntimeClasses | None:
    """Decode the announced QoS classes; None when the runtime does not support them."""
    if not status.HasField("resources"):
        return None
    resources = status.resources
    return RuntimeClasses(
        tuple(_class_type(each) for each in resources.pod_class_resources),
        tuple(_class_type(each) for each in resources.container_class_resources),
    )


def _class_type(info: pb.ClassResourceInfo) -> RuntimeClassType:
    return RuntimeClassType(info.name, {each.name: each.capacity for each in info.classes}, info.immutable)


def container_usage(stats: pb.ContainerStats) -> RuntimeUsage:
    """Decode the usage of a container."""
    return RuntimeUsage(
        id=stats.attributes.id,
        at=stats.cpu.timestamp / _NANOSECONDS,
        cpu=stats.cpu.usage_core_nano_seconds.value / _NANOSECONDS,
        memory_working_set=stats.memory.working_set_bytes.value,
        memory_rss=stats.memory.rss_bytes.value,
        memory_usage=stats.memory.usage_bytes.value,
        disk=stats.writable_layer.used_bytes.value,
        inodes=stats.writable_layer.inodes_used.value,
    )


def sandbox_usage(stats: pb.PodSandboxStats) -> RuntimeUsage:
    """Decode the usage of a sandbox with its containers."""
    linux = stats.linux
    default = linux.network.default_interface
    interfaces = [default, *(each for each in linux.network.interfaces if each.name != default.name)]
    return RuntimeUsage(
        id=stats.attributes.id,
        at=linux.cpu.timestamp / _NANOSECONDS,
        cpu=linux.cpu.usage_core_nano_seconds.value / _NANOSECONDS,
        memory_working_set=linux.memory.working_set_bytes.value,
        memory_rss=linux.memory.rss_bytes.value,
        memory_usage=linux.memory.usage_bytes.value,
        received=sum(each.rx_bytes.value for each in interfaces),
        transmitted=sum(each.tx_bytes.value for each in interfaces),
        processes=linux.process.process_count.value,
    )


def image(item: pb.Image, info: str = "") -> Image:
    """Decode an image. `info`: the JSON that a verbose response has beside it."""
    return Image(
        id=item.id,
        tags=tuple(item.repo_tags),
        digests=tuple(item.repo_digests),
        size=item.size,
        user=item.uid.value if item.HasField("uid") else None,
        username=item.username,
        pinned=item.pinned,
        variables=_variables(info) if info else (),
    )


def _variables(info: str) -> tuple[str, ...]:
    """Return the variables of an image's configuration, which its author wrote; none if it cannot be read."""
    try:
        return tuple(msgspec.json.decode(info, type=_ImageInfo).image_spec.config.variables or ())
    except msgspec.MsgspecError:
        return ()


class _ImageConfig(msgspec.Struct):
    variables: list[str] | None = msgspec.field(default=None, name="Env")


class _ImageSpec(msgspec.Struct):
    config: _ImageConfig = msgspec.field(default_factory=_ImageConfig)


class _ImageInfo(msgspec.Struct):
    image_spec: _ImageSpec = msgspec.field(default_factory=_ImageSpec, name="imageSpec")


def _pod(metadata: pb.PodSandboxMetadata) -> PodIdentity:
    return PodIdentity(metadata.namespace, metadata.name, metadata.uid, metadata.attempt)
