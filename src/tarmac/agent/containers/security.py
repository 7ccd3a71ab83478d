"""Merges the security contexts of a pod and its containers into the runtime's security settings."""

from __future__ import annotations

import glob
from functools import cache
from pathlib import Path
from typing import Literal

from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Image, LinuxSecurity

_MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_RAW_SOCKETS = "NET_RAW"
_FROM_POD = ("runAsUser", "runAsGroup", "runAsNonRoot")

_Kind = Literal["RuntimeDefault", "Unconfined", "Localhost"]


class SecurityRefused(Exception):
    """The container may not run with its settings. `kubectl describe` shows the message."""


def sandbox_security(pod: AgentPod) -> LinuxSecurity:
    """Return the security settings shared by all containers of the pod."""
    stated = pod.spec.get("securityContext") or {}
    return LinuxSecurity(
        user=stated.get("runAsUser"),
        group=stated.get("runAsGroup"),
        supplemental_groups=_groups(stated),
        strict_groups=wants_strict_groups(pod),
        privileged=any((each.get("securityContext") or {}).get("privileged") for each in pod.every_container()),
        seccomp="RuntimeDefault",
        host_network=pod.host_network,
        host_pid=bool(pod.spec.get("hostPID")),
        host_ipc=bool(pod.spec.get("hostIPC")),
        share_processes=bool(pod.spec.get("shareProcessNamespace")),
    )


def container_security(
    pod: AgentPod,
    container: JsonObject,
    image: Image | None,
    seccomp_root: Path,
    *,
    seccomp_default: bool,
    raw_sockets: bool = True,
    target: str = "",
) -> LinuxSecurity:
    """Return the settings of one container. `target` is a container to share processes with. Raises SecurityRefused."""
    of_pod = pod.spec.get("securityContext") or {}
    stated: JsonObject = {field: of_pod[field] for field in _FROM_POD if of_pod.get(field) is not None}
    stated |= {field: value for field, value in (container.get("securityContext") or {}).items() if value is not None}
    _check_not_root(pod, container, stated, image)
    kind, profile = _seccomp(of_pod, container, seccomp_root, seccomp_default)
    user = stated.get("runAsUser")
    from_image = image if user is None else None
    add, drop = _capabilities(stated, raw_sockets)
    masked = stated.get("procMount") != "Unmasked"
    return LinuxSecurity(
        user=from_image.user if from_image else user,
        username=from_image.username if from_image else "",
        group=stated.get("runAsGroup"),
        supplemental_groups=_groups(of_pod),
        strict_groups=wants_strict_groups(pod),
        privileged=bool(stated.get("privileged")),
        read_only_root=bool(stated.get("readOnlyRootFilesystem")),
        no_new_privileges=stated.get("allowPrivilegeEscalation") is False,
        add_capabilities=add,
        drop_capabilities=drop,
        seccomp=kind,
        seccomp_path=profile,
        masked_paths=masked_paths() if masked else (),
        read_only_paths=_READ_ONLY if masked else (),
        host_network=pod.host_network,
        host_pid=bool(pod.spec.get("hostPID")),
        host_ipc=bool(pod.spec.get("hostIPC")),
        share_processes=bool(pod.spec.get("shareProcessNamespace")),
        target_container=target,
    )


def wants_strict_groups(pod: AgentPod) -> bool:
    """Return True if groups defined only in the image must not apply."""
    return (pod.spec.get("securityContext") or {}).get("supplementalGroupsPolicy") == "Strict"


@cache
def masked_paths() -> tuple[str, ...]:
    """Return paths that expose too much of the host, some of them per CPU."""
    # Read once per agent: CPUs that come online later stay unmasked until its next start.
    return (*_MASKED, *sorted(glob.glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")))


def _groups(of_pod: JsonObject) -> tuple[int, ...]:
    fs_group = of_pod.get("fsGroup")
    return (*(() if fs_group is None else (fs_group,)), *(of_pod.get("supplementalGroups") or ()))


def _capabilities(stated: JsonObject, raw_sockets: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return added and dropped capabilities. Without `raw_sockets`, NET_RAW must be requested explicitly."""
    capabilities = stated.get("capabilities") or {}
    add, drop = tuple(capabilities.get("add") or ()), tuple(capabilities.get("drop") or ())
    if raw_sockets or stated.get("privileged") or not {_RAW_SOCKETS, "ALL"}.isdisjoint((*add, *drop)):
        return add, drop
    # The runtime's default set has NET_RAW: only an explicit drop takes it away.
    return add, (*drop, _RAW_SOCKETS)


def _seccomp(of_pod: JsonObject, container: JsonObject, root: Path, by_default: bool) -> tuple[_Kind, str]:
    stated = (container.get("securityContext") or {}).get("seccompProfile") or of_pod.get("seccompProfile")
    kind = (stated or {}).get("type") or ("RuntimeDefault" if by_default else "Unconfined")
    if kind != "Localhost":
        return ("RuntimeDefault" if kind == "RuntimeDefault" else "Unconfined"), ""
    profile = (stated or {}).get("localhostProfile")
    if not profile:
        raise SecurityRefused("localhostProfile must be set if seccompProfile type is Localhost.")
    path = (root / profile).resolve()
    # A tenant writes this name: neither `..` nor a symbolic link may lead out of the folder.
    if not path.is_relative_to(root.resolve()):
        raise SecurityRefused(f"localhostProfile {profile!r} is not under the node's profiles")
    return "Localhost", str(path)


def _check_not_root(pod: AgentPod, container: JsonObject, stated: JsonObject, image: Image | None) -> None:
    if not stated.get("runAsNonRoot"):
        return
    whose = f'(pod: "{pod}", container: {container["name"]})'
    user = stated.get("runAsUser")
    if user is not None:
        if user == 0:
            raise SecurityRefused(f"container's runAsUser breaks non-root policy {whose}")
        return
    if image is None:
        return
    if image.user is None and image.username:
        raise SecurityRefused(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}), "
            f"cannot verify user is non-root {whose}"
        )
    if image.user in (None, 0):
        raise SecurityRefused(f"container has runAsNonRoot and image will run as root {whose}")
