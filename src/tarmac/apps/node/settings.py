"""The settings of each part, out of what the agent is told."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.config.settings import AgentConfig
from tarmac.agent.pods.settings import PodSettings

_PULLS = 4


def pod_settings(config: AgentConfig) -> PodSettings:
    """Of the pod loop."""
    kubelet = config.kubelet
    return PodSettings(
        node_name=config.node_name,
        root_dir=config.root_dir,
        log_dir=config.pod_logs_dir,
        manifest_dir=Path(kubelet.static_pod_path) if kubelet.static_pod_path else None,
        resolv_conf=Path(kubelet.resolv_conf) if kubelet.resolv_conf else None,
        cluster_dns=kubelet.cluster_dns,
        cluster_domain=kubelet.cluster_domain,
        parallel_pulls=1 if kubelet.serialize_image_pulls else kubelet.max_parallel_image_pulls or _PULLS,
        seccomp_default=kubelet.seccomp_default,
    )
