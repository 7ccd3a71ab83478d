"""The effective configuration of `/configz`: a file with the same effect without any flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.config.evictions import hard_evictions
from tarmac.agent.config.kubelet import Bytes, Seconds
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration
from tarmac.base.gates import merge_gates
from tarmac.base.quantity import Format, Quantity
from tarmac.decide.allocatable.reservations import Reserved
from tarmac.decide.amounts import shown


def in_effect(config: AgentConfig) -> JsonObject:
    """Return all supported fields with flags and defaults applied."""
    flags, kubelet = config.flags, config.kubelet
    effective = msgspec.structs.replace(
        kubelet,
        container_runtime_endpoint=f"unix://{config.runtime_socket}",
        cgroup_root=config.cgroup_root,
        pod_logs_dir=str(config.pod_logs_dir),
        system_reserved=_amounts(config.reservations.system),
        kube_reserved=_amounts(config.reservations.kube),
        reserved_system_cpus=str(config.reservations.reserved_cpus or ""),
        cpu_manager_policy=config.cpu_manager_policy,
        cpu_over_subscription_capacity=flags.oversubscription or kubelet.cpu_over_subscription_capacity,
        eviction_hard=hard_evictions(kubelet),
        node_status_report_frequency=Seconds(kubelet.report_frequency),
        feature_gates=merge_gates(kubelet.feature_gates, flags.feature_gates),
    )
    fields: JsonObject = msgspec.to_builtins(effective, enc_hook=_written)
    return {name: value for name, value in fields.items() if value is not None}


def _amounts(reserved: Mapping[str, Reserved]) -> dict[str, str]:
    return {resource: shown(resource, each.amount) for resource, each in reserved.items()}


def _written(value: Any) -> str:
    """Format durations and amounts as in the file."""
    if isinstance(value, Seconds):
        return format_duration(value)
    if isinstance(value, Bytes):
        return str(Quantity.of(value, Format.BINARY_SI))
    raise NotImplementedError(type(value))
