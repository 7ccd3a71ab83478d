"""The settings of the pod loop, with kubelet's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Paths, names and times. Durations are in seconds."""

    node_name: str
    root_dir: Path
    """Contains `pods/<uid>/`: the checkpoint, the hosts file and termination messages."""
    log_dir: Path = Path("/var/log/pods")
    manifest_dir: Path | None = None
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    parallel_pulls: int = 1
    """Maximum number of parallel image pulls."""
    crash_loop_longest: float = 300.0
    retry: float = 5.0
    """Delay before a failed step is retried."""
    relist: float = 60.0
    """Interval of full passes over all pods, as a safety net for lost events."""
    volume_refresh: float = 60.0
    manifest_interval: float = 20.0
    seccomp_default: bool = False
    raw_sockets: bool = True
    """True if containers have NET_RAW by default."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    enforce_fit: bool = True
    """Reject pods that do not fit the node's allocatable, its labels or its handlers."""
