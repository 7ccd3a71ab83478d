"""The settings of the pod loop, all of them, with kubelet's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PodSettings:
    """Paths, names and times. Durations are in seconds."""

    node_name: str
    root_dir: Path
    """Under it `pods/<uid>/`: the kept definition, the hosts file and termination messages."""
    log_dir: Path = Path("/var/log/pods")
    manifest_dir: Path | None = None
    resolv_conf: Path | None = Path("/etc/resolv.conf")
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    parallel_pulls: int = 1
    """How many images are pulled at once."""
    crash_loop_longest: float = 300.0
    retry: float = 5.0
    """How soon something that did not work is tried again."""
    relist: float = 60.0
    """The safety net: everything is looked at again this often, whatever events said."""
    volume_refresh: float = 60.0
    manifest_interval: float = 20.0
    seccomp_default: bool = False
    raw_sockets: bool = True
    """Whether containers have NET_RAW without asking for it."""
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    enforce_fit: bool = True
    """Refuse pods that do not fit the node's allocatable, its labels or its handlers."""
