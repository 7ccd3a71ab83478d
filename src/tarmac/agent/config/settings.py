"""Everything the agent is told, checked and in one place: flags over the configuration file over defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.config.reading import BadConfig
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.base import names
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.decide.allocatable.reservations import Reservations, oversubscription_of, reserved_amounts
from tarmac.decide.allocatable.thresholds import DEFAULT_HARD, Threshold, thresholds

NetworkMode = Literal["tarmac", "cni", "auto"]
_log = log("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The command line."""

    node_name: str
    kubeconfig: Path
    bootstrap_kubeconfig: Path | None = None
    root_dir: Path = Path("/var/lib/tarmac/agent")
    run_dir: Path = Path("/run/tarmac/agent")
    pod_logs_dir: Path | None = None
    location: str = ""
    network: NetworkMode = "auto"
    cni_bin_dir: Path = Path("/opt/cni/bin")
    cni_conf_dir: Path = Path("/etc/cni/net.d")
    node_labels: Mapping[str, str]
    node_ips: tuple[str, ...] = ()
    runtime_endpoint: str = ""
    cgroup_root: str = ""
    oversubscription: str = ""
    feature_gates: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What the agent's parts are made from."""

    flags: Flags
    kubelet: KubeletConfiguration
    labels: Mapping[str, str]
    runtime_socket: str
    cgroup_root: str
    thresholds: tuple[Threshold, ...]
    reservations: Reservations

    @property
    def node_name(self) -> str:
        """The Node's name."""
        return self.flags.node_name

    @property
    def root_dir(self) -> Path:
        """Where everything the agent keeps is."""
        return self.flags.root_dir

    @property
    def pod_logs_dir(self) -> Path:
        """Where the logs of pods are."""
        return self.flags.pod_logs_dir or Path(self.kubelet.pod_logs_dir)


def settle(flags: Flags, kubelet: KubeletConfiguration) -> AgentConfig:
    """Flags and file together. Raises BadConfig."""
    for name in {**kubelet.feature_gates, **flags.feature_gates}:
        _log.warning("this feature gate has no effect here", gate=name)
    if problems := names.dns1123_subdomain(flags.node_name):
        raise BadConfig(f"--node-name: {flags.node_name!r}: {problems[0]}")
    try:
        limits = _thresholds(kubelet)
    except ValueError as error:
        raise BadConfig(str(error)) from error
    return AgentConfig(
        flags=flags,
        kubelet=kubelet,
        labels=_labels(flags),
        runtime_socket=_socket(flags.runtime_endpoint or kubelet.container_runtime_endpoint),
        cgroup_root="/" + (flags.cgroup_root or kubelet.cgroup_root).strip("/"),
        thresholds=limits,
        reservations=_reservations(flags, kubelet, limits),
    )


def of_own_node(config: AgentConfig, own: bool) -> AgentConfig:
    """The same, with what depends on whether the agent connects pods itself. Elsewhere Kubernetes' defaults hold."""
    stated = config.kubelet.seccomp_default
    kubelet = msgspec.structs.replace(config.kubelet, seccomp_default=own if stated is None else stated)
    return replace(config, kubelet=kubelet)


def hard_evictions(kubelet: KubeletConfiguration) -> dict[str, str]:
    """Below which amounts pods are ended at once."""
    stated = kubelet.eviction_hard
    if stated is None or kubelet.merge_default_eviction_settings:
        return {**DEFAULT_HARD, **(stated or {})}
    return stated


def _thresholds(kubelet: KubeletConfiguration) -> tuple[Threshold, ...]:
    soft, grace = kubelet.eviction_soft, kubelet.eviction_soft_grace_period
    return thresholds(hard_evictions(kubelet), soft, grace, kubelet.eviction_minimum_reclaim)


def _reservations(flags: Flags, kubelet: KubeletConfiguration, limits: tuple[Threshold, ...]) -> Reservations:
    return Reservations(
        system=_amounts("systemReserved", kubelet.system_reserved),
        kube=_amounts("kubeReserved", kubelet.kube_reserved),
        eviction=limits,
        reserved_cpus=_reserved_cpus(kubelet.reserved_system_cpus),
        oversubscription=_oversubscription(flags, kubelet),
    )


def _amounts(field: str, texts: Mapping[str, str]) -> dict[str, int]:
    try:
        return reserved_amounts(texts)
    except ValueError as error:
        raise BadConfig(f"{field}: {error}") from error


def _reserved_cpus(text: str) -> int | None:
    if not text:
        return None
    try:
        reserved = CPUSet.parse(text)
    except ValueError as error:
        raise BadConfig(f"reservedSystemCPUs: {error}") from error
    present = set(range(os.cpu_count() or 1))
    if missing := set(reserved) - present:
        raise BadConfig(f"reservedSystemCPUs: there is no processor {min(missing)}; there are {len(present)}")
    return len(reserved)


def _oversubscription(flags: Flags, kubelet: KubeletConfiguration) -> int:
    flag, text = "--cpu-over-subscription-capacity", flags.oversubscription
    if not text:
        flag, text = "cpuOverSubscriptionCapacity", str(kubelet.cpu_over_subscription_capacity)
    try:
        return oversubscription_of(text)
    except ValueError as error:
        raise BadConfig(f"{flag}: {error}; write processors, such as 1.5 or 1500m") from error


def _labels(flags: Flags) -> dict[str, str]:
    labels = dict(flags.node_labels)
    if flags.location:
        labels[LABEL_LOCATION] = flags.location
    for key, value in labels.items():
        if problems := names.label_key(key) + names.label_value(value):
            raise BadConfig(f"--node-labels: {key}={value}: {problems[0]}")
    return labels


def _socket(endpoint: str) -> str:
    path = endpoint.removeprefix("unix://")
    if not path.startswith("/"):
        raise BadConfig(f"--container-runtime-endpoint: {endpoint!r} is not unix:///PATH")
    return path
