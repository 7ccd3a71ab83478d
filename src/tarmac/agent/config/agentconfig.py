"""The merged configuration of the agent's parts, built from flags, file and reservations.

read     flags and the file (`configreader`)
size     reservations and their sources; may take time and run programs (`sizing`)
settle   merges and validates both (here): flags over the file over defaults
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from tarmac.agent.config.configreader import BadConfig, StatedConfig
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.base import names
from tarmac.base.gates import FeatureGates
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.decide.allocatable.thresholds import Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The merged configuration."""

    flags: Flags
    kubelet: KubeletConfiguration
    gates: FeatureGates
    labels: Mapping[str, str]
    runtime_socket: str
    cgroup_root: str
    reservations: Reservations

    @property
    def node_name(self) -> str:
        """The Node's name."""
        return self.flags.node_name

    @property
    def root_dir(self) -> Path:
        """The agent's state directory."""
        return self.flags.root_dir

    @property
    def cpu_manager_policy(self) -> Literal["none", "static"]:
        """`static` if containers can have exclusive CPUs."""
        return self.flags.cpu_manager_policy or self.kubelet.cpu_manager_policy

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The eviction thresholds."""
        return self.reservations.eviction

    @property
    def pod_logs_dir(self) -> Path:
        """The directory of pod logs."""
        return self.flags.pod_logs_dir or Path(self.kubelet.pod_logs_dir)


def settle(stated: StatedConfig, reservations: Reservations) -> AgentConfig:
    """Merge flags, file and reservations: the last of three steps. Raises BadConfig."""
    flags, kubelet = stated.flags, stated.kubelet
    if problems := names.dns1123_subdomain(flags.node_name):
        raise BadConfig(f"--node-name: {flags.node_name!r}: {problems[0]}")
    return AgentConfig(
        flags=flags,
        kubelet=kubelet,
        gates=stated.gates,
        labels=_labels(flags),
        runtime_socket=_socket(flags.runtime_endpoint or kubelet.container_runtime_endpoint),
        cgroup_root="/" + (flags.cgroup_root or kubelet.cgroup_root).strip("/"),
        reservations=reservations,
    )


def of_own_node(config: AgentConfig, own: bool) -> AgentConfig:
    """Set defaults that depend on the pod network: Tarmac's own (`own`), or else Kubernetes' defaults."""
    stated = config.kubelet.seccomp_default
    kubelet = msgspec.structs.replace(config.kubelet, seccomp_default=own if stated is None else stated)
    return replace(config, kubelet=kubelet)


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
