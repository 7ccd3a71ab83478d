"""The command line of the agent, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal

NetworkMode = Literal["tarmac", "cni", "auto"]


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
    encrypt_between_cities: Literal["require", "off"] = "require"
    drain_announcements: float = 5.0  # seconds
    cni_bin_dir: Path = Path("/opt/cni/bin")
    cni_conf_dir: Path = Path("/etc/cni/net.d")
    device_plugin_dir: Path = Path("/var/lib/kubelet/device-plugins")
    nvidia: Literal["auto", "off"] = "auto"
    nvidia_names: Mapping[str, str] = field(default_factory=dict[str, str])
    machine_image_dir: Path | None = None
    tenant_image_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    tenant_image_denied_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    registry_hosts_dir: Path | None = None
    recording_days: int = 30
    recording_bytes: int = 256 * 1024 * 1024
    node_labels: Mapping[str, str]
    node_ips: tuple[str, ...] = ()
    runtime_endpoint: str = ""
    cgroup_root: str = ""
    oversubscription: str = ""
    system_reserved: Mapping[str, str] = field(default_factory=dict[str, str])
    kube_reserved: Mapping[str, str] = field(default_factory=dict[str, str])
    reserved_cpus: str = ""
    cpu_manager_policy: Literal["", "none", "static"] = ""
    ignore_unsupported_policies: bool = False
    sizing_provider_config: Path | None = None
    sizing_provider_bin_dir: Path | None = None
    feature_gates: Mapping[str, bool]
    unknown: tuple[str, ...] = ()
    """Unrecognised arguments, as written."""
