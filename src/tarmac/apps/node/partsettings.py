"""The settings of each part, derived from the agent's configuration."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.model.podsettings import PodSettings
from tarmac.api.networking.names import RESOLVERS

_PULLS = 4


def pod_settings(config: AgentConfig, own_network: bool) -> PodSettings:
    """Return the settings of the pod loop.

    `own_network`: the agent connects pods itself, and serves their DNS unless the configuration names servers.
    """
    kubelet = config.kubelet
    dns = kubelet.cluster_dns or (RESOLVERS if own_network else ())
    return PodSettings(
        node_name=config.node_name,
        root_dir=config.root_dir,
        log_dir=config.pod_logs_dir,
        manifest_dir=Path(kubelet.static_pod_path) if kubelet.static_pod_path else None,
        resolv_conf=Path(kubelet.resolv_conf) if kubelet.resolv_conf else None,
        cluster_dns=dns,
        cluster_domain=kubelet.cluster_domain,
        parallel_pulls=1 if kubelet.serialize_image_pulls else kubelet.max_parallel_image_pulls or _PULLS,
        crash_loop_longest=kubelet.crash_loop_back_off.max_container_restart_period,
        manifest_interval=kubelet.file_check_frequency,
        seccomp_default=bool(kubelet.seccomp_default),
        raw_sockets=not own_network,
        allowed_unsafe_sysctls=kubelet.allowed_unsafe_sysctls,
    )
