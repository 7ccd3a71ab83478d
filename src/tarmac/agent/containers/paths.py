"""Paths of a pod's files on the node: kubelet's layout, which log collectors know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tarmac.agent.model.pod import AgentPod


@dataclass(frozen=True, slots=True)
class PodPaths:
    """Paths under the agent's root and its log directory."""

    root: Path
    logs: Path

    def home(self, uid: str) -> Path:
        """Directory of all files of a pod."""
        return self.root / "pods" / uid

    def definition(self, uid: str) -> Path:
        """The checkpoint."""
        return self.home(uid) / "pod.json"

    def hosts(self, uid: str) -> Path:
        """The hosts file that all its containers share."""
        return self.home(uid) / "etc-hosts"

    def termination_message(self, uid: str, container: str, attempt: int) -> Path:
        """The file for a container's termination message."""
        return self.home(uid) / "containers" / container / f"{attempt}.message"

    def pod_logs(self, pod: AgentPod) -> Path:
        """The directory that the sandbox's log paths are relative to."""
        return self.logs / f"{pod.namespace}_{pod.name}_{pod.uid}"

    def container_logs(self, pod: AgentPod, container: str) -> Path:
        """The logs of one container, one file per attempt."""
        return self.pod_logs(pod) / container

    def container_log(self, pod: AgentPod, container: str, attempt: int) -> Path:
        """The log of one attempt."""
        return self.container_logs(pod, container) / f"{attempt}.log"
